"""Draws the ladder: how near to cuBLAS each lesson's trick gets, at several sizes.

A lesson measured with several knobs stands at its fastest. The strip below the curves gives the
TFLOP/s behind every point.
"""

import argparse
import math
import re
import statistics

import command
import picture
import results

# More curves than there are colours to tell apart would not be read.
MOST_SHAPES = len(picture.COLOURS)

# The layout, in inches.
_LEFT, _RIGHT, _TOP = 1.75, 2.1, 0.8
_CURVES = 3.3
_ROW = 0.23
_FOOT = 0.62
_SLANTED = 7  # more lessons than this have slanted names
_WIDE = 12  # more lessons than this need a wider picture


def main():
    parser = command.Parser(description=__doc__.split("\n\n")[0])
    parser.add_output("ladder.png")
    parser.add_selection()
    parser.add_argument(
        "--shape",
        metavar="MxNxK",
        type=_shape,
        action="append",
        help=f"a size to draw, may be repeated (default: the {MOST_SHAPES} that most lessons have)",
    )
    arguments = parser.parse_args()
    if arguments.shape and len(arguments.shape) > MOST_SHAPES:
        parser.error(f"--shape: at most {MOST_SHAPES} sizes fit into one picture")

    loaded = results.load(arguments.files)
    command.select(loaded, arguments)
    shapes = arguments.shape or _most_measured(loaded.runs)
    loaded.keep_runs(lambda run: run.problem.shape in shapes, "at other sizes (--shape)")
    if not loaded.runs:
        raise loaded.nothing("run to draw")
    for shape in shapes:
        if not any(run.problem.shape == shape for run in loaded.runs):
            raise loaded.nothing(f"run at {results.shape_label(shape)}")
    results.require_one_gpu(loaded.runs)

    picture.save(draw(loaded.runs), arguments.output)
    if left_out := loaded.left_out():
        command.say(left_out)


def draw(runs):
    """The figure of `runs`: one protocol, one kind of inputs, one GPU."""
    best = results.fastest(runs)
    names = results.lesson_names(runs)
    shapes = sorted({shape for _, shape in best}, key=results.work)
    slanted = len(names) > _SLANTED
    strip = _ROW * (len(shapes) + 2.5)
    header = 1.3 if slanted else 0.5

    footer = f"{results.provenance(runs)}\n{results.conditions(runs)}"
    if len(best) < len(runs):
        footer += "; each lesson at its fastest knobs"
    fig = picture.figure(
        title="How near to cuBLAS each trick gets",
        subtitle="D = A·Bᵀ, bf16 in and out, fp32 sums; each lesson timed beside cuBLAS",
        footer=footer,
        width=11 if len(names) > _WIDE else 9,
        height=_FOOT + strip + header + _CURVES + _TOP,
    )
    columns = {lesson: column for column, lesson in enumerate(names)}
    curves = _axes(fig, len(columns), bottom=_FOOT + strip + header, height=_CURVES)
    _draw_curves(curves, best, columns, shapes)
    curves.set_xticks(
        list(columns.values()),
        [
            f"{lesson:02} {names[lesson]}" if slanted else f"{lesson:02}\n{names[lesson]}"
            for lesson in columns
        ],
        **({"rotation": 40, "ha": "right", "rotation_mode": "anchor"} if slanted else {}),
    )
    _draw_strip(
        _axes(fig, len(columns), bottom=_FOOT, height=strip),
        best,
        columns,
        shapes,
        results.library_tflops(runs),
    )
    return fig


def _axes(fig, columns, bottom, height):
    """Axes over the lessons' columns; both pairs of axes share their x positions (inches)."""
    width, total = fig.get_size_inches()
    inside = width - _LEFT - _RIGHT
    axes = fig.add_axes((_LEFT / width, bottom / total, inside / width, height / total))
    before, after = 0.45, 0.3
    step = (inside - before - after) / max(columns - 1, 1)
    axes.set_xlim(-before / step, columns - 1 + after / step)
    return axes


def _draw_curves(axes, best, columns, shapes):
    top = 1.12 * max(1, *(run.share for run in best.values()))
    axes.set_ylim(0, top)
    ticks = [0.2 * step for step in range(math.floor(top / 0.2) + 1)]
    axes.set_yticks(ticks, [f"{100 * share:.0f} %" for share in ticks])
    axes.set_ylabel("share of cuBLAS's speed")
    axes.axhline(1, color=picture.INK, linewidth=1.2, linestyle=(0, (5, 3)))
    axes.annotate(
        "cuBLAS", (0, 1), (6, 4), xycoords=axes.get_yaxis_transform(), textcoords="offset points"
    )

    ends = []
    for shape, colour in zip(shapes, picture.COLOURS):
        runs = [best[lesson, shape] for lesson in columns if (lesson, shape) in best]
        x = [columns[run.lesson] for run in runs]
        y = [run.share for run in runs]
        axes.plot(x, y, color=colour, marker="o", markeredgecolor="white", clip_on=False)
        label = f"{results.percent(y[-1])}  {results.shape_label(shape)}"
        ends.append((label, (x[-1], y[-1]), colour))
    picture.label_at_right(axes, ends)


def _draw_strip(axes, best, columns, shapes, library):
    """A table under the curves: a row a size, a column a lesson, and cuBLAS at the right."""
    axes.set_axis_off()
    axes.set_ylim(len(shapes) + 2, -0.5)
    width = axes.get_window_extent().width / axes.figure.dpi
    cublas = 1 + 0.6 / width
    digits = 8.5 if len(columns) > _WIDE else 10

    def head(row, text, **style):
        style = {"ha": "right", "va": "center", **style}
        axes.text(-0.1 / width, row, text, transform=axes.get_yaxis_transform(), **style)

    def cell(lesson, row, text):
        axes.text(columns[lesson], row, text, ha="center", va="center", fontsize=digits)

    def library_cell(row, text):
        style = {"ha": "center", "va": "center"}
        axes.text(cublas, row, text, transform=axes.get_yaxis_transform(), **style)

    head(0, "TFLOP/s", weight="bold")
    library_cell(0, "cuBLAS")
    axes.axhline(0.5, color=picture.GREY, linewidth=0.8, xmax=cublas + 0.3 / width, clip_on=False)
    for row, (shape, colour) in enumerate(zip(shapes, picture.COLOURS), 1):
        head(row, results.shape_label(shape), color=colour, weight="bold")
        for lesson in columns:
            run = best.get((lesson, shape))
            cell(lesson, row, results.three_digits(run.timed.tflops) if run else "–")
        library_cell(row, results.three_digits(library[shape]))

    row = len(shapes) + 1.3
    head(row, "speed-up by trick, ×")
    for before, lesson in zip(columns, list(columns)[1:]):
        cell(lesson, row, _speed_up(best, shapes, before, lesson))


def _speed_up(best, shapes, before, lesson):
    """The median over the sizes of how the share grew: no gain for a card that cooled meanwhile."""
    ratios = [
        best[lesson, shape].share / best[before, shape].share
        for shape in shapes
        if (lesson, shape) in best and (before, shape) in best
    ]
    if not ratios:
        return "–"
    ratio = statistics.median(ratios)
    return f"{ratio:.1f}" if ratio >= 10 else f"{ratio:.2f}"


def _most_measured(runs):
    """The MOST_SHAPES shapes that most lessons have, larger ones first where that ties."""
    lessons = {}
    for run in runs:
        lessons.setdefault(run.problem.shape, set()).add(run.lesson)
    order = sorted(lessons, key=lambda shape: (len(lessons[shape]), results.work(shape)))
    return order[-MOST_SHAPES:]


def _shape(text):
    match = re.fullmatch(r"(\d+)x(\d+)x(\d+)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text} is not like 4096x4096x4096")
    return tuple(map(int, match.groups()))


if __name__ == "__main__":
    command.run(main)
