"""Draws what the epilogues of lessons 13 and 14 cost, and what the library takes for the same.

A row an epilogue, a panel a problem size: the time as a multiple of lesson 13's time for the plain
product there. Where the library has no such epilogue, its product is followed by a second kernel.
"""

import command
import picture
import results

_FOOT, _ROW, _TOP = 0.9, 0.36, 1.0  # of the layout, in inches

# What is drawn, by lesson and by the knobs and the beta that single it out.
ROWS = (
    ("bias", 13, {"activation": "none", "bias": "column"}, 0),
    ("bias, ReLU", 13, {"activation": "relu"}, 0),
    ("bias, GELU (tanh)", 13, {"activation": "gelu-tanh"}, 0),
    ("bias, GELU", 13, {"activation": "gelu", "residual": "off", "output": "bf16"}, 0),
    ("bias, SiLU", 13, {"activation": "silu"}, 0),
    ("C", 13, {"activation": "none", "bias": "none"}, 1),
    ("bias, GELU, residual", 13, {"activation": "gelu", "residual": "on"}, 0),
    ("bias, aux, GELU (tanh)", 14,
     {"pass": "forward", "activation": "gelu-tanh", "bias": "column", "scalar": "none"}, 0),
    ("dGELU (tanh), bias gradient", 14,
     {"pass": "backward", "activation": "gelu-tanh", "bias": "column", "scalar": "none",
      "sums": "ordered"}, 0),
)  # fmt: skip
PLAIN = ("plain", 13, {"activation": "none", "bias": "none", "residual": "off"}, 0)


def main():
    parser = command.Parser(description=__doc__.split("\n\n")[0])
    parser.add_output("epilogues.png")
    parser.add_selection()
    arguments = parser.parse_args()

    loaded = results.load(arguments.files)
    command.select(loaded, arguments, plain=False)
    runs = [run for run in loaded.runs if run.lesson in (13, 14)]
    panels = measured(runs)
    if not panels:
        raise loaded.nothing("plain run of lesson 13 with an epilogue beside it")
    results.require_one_gpu(runs)
    picture.save(draw(panels, runs), arguments.output)


def measured(runs):
    """{shape: {name of a row: (the lesson's multiple, the library's)}}."""
    panels = {}
    for shape in sorted({run.problem.shape for run in runs}, key=results.work):
        plain = find(runs, shape, PLAIN)
        rows = {row[0]: find(runs, shape, row) for row in ROWS}
        rows = {name: run for name, run in rows.items() if run}
        if plain and rows:
            panels[shape] = {
                name: (run.timed.ms / plain.timed.ms, run.library.ms / plain.timed.ms)
                for name, run in rows.items()
            }
    return panels


def find(runs, shape, row):
    """The run at a shape that a row asks for, or None."""
    _, lesson, knobs, beta = row
    for run in runs:
        is_asked = set(knobs.items()) <= set(run.knobs) and run.problem.beta == beta
        if run.lesson == lesson and run.problem.shape == shape and is_asked:
            return run
    return None


def draw(panels, runs):
    """The figure."""
    names = [name for name, *_ in ROWS if any(name in rows for rows in panels.values())]
    fig = picture.figure(
        title="What an epilogue costs",
        subtitle="Time over that of lesson 13's plain product, at each size",
        footer=f"{results.provenance(runs)}\n{results.conditions(runs)}",
        width=12,
        height=_FOOT + _ROW * len(names) + _TOP,
    )
    left, width = 0.2, 0.765 / len(panels)
    total = fig.get_size_inches()[1]
    bottom, height = _FOOT / total, _ROW * len(names) / total
    for place, (shape, rows) in enumerate(panels.items()):
        axes = fig.add_axes((left + place * width, bottom, width - 0.015, height))
        axes.set_title(results.shape_label(shape), fontsize=10, loc="left")
        for row, name in enumerate(names):
            if name not in rows:
                continue
            own, library = rows[name]
            axes.plot((own, library), (row, row), color=picture.GREY, linewidth=1, zorder=1)
            axes.plot(library, row, "o", color=picture.COLOURS[1], label="library" if row == 0 else None)
            axes.plot(own, row, "o", color=picture.COLOURS[0], label="lesson" if row == 0 else None)
        axes.axvline(1, color=picture.INK, linewidth=1)
        axes.set_xlim(left=0.9)
        low, high = axes.get_xlim()
        axes.set_xticks([tick for tick in axes.get_xticks() if low <= tick <= high])
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_yticks(range(len(names)), names if place == 0 else [""] * len(names))
    fig.legend(*fig.axes[0].get_legend_handles_labels(), frameon=False, loc="upper right", ncols=2)
    return fig


if __name__ == "__main__":
    command.run(main)
