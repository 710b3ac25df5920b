"""Draws what turning one knob does: lesson 04's stages, lesson 05's lag, K in lesson 07 against
lesson 08, the number of tiles in lessons 09 and 11, and how full the last wave is in lesson 11.

The table below the curves gives the TFLOP/s behind every point; of a gain, the gain itself.
"""

import collections
import dataclasses
import itertools
import math

import command
import picture
import results

# The layout, in inches.
_LEFT, _RIGHT, _TOP, _FOOT = 1.75, 1.75, 0.8, 0.45
_CURVES, _AXIS, _ROW = 3.0, 0.6, 0.23

_WHAT = "Share of cuBLAS's speed"


@dataclasses.dataclass(frozen=True)
class Curve:
    """The runs of a curve, by what is on the x axis; of a library's curve, its times beside them.
    With `against`, other runs, the curve is of the gain over these."""

    name: str
    runs: dict
    colour: str
    is_dashed: bool = False
    is_library: bool = False
    against: dict = dataclasses.field(default_factory=dict)

    def tflops(self, value):
        run = self.runs[value]
        return run.library.tflops if self.is_library else run.timed.tflops


@dataclasses.dataclass(frozen=True)
class Sweep:
    """A figure's curves and texts; `compared` holds pairs of curves, one of which is over the
    other. The curves are of the share of cuBLAS's speed, or of the speed itself, or
    of the gain over other runs."""

    title: str
    subtitle: str
    x_label: str
    curves: list
    compared: list = dataclasses.field(default_factory=list)
    is_log: bool = False
    is_even: bool = False  # the swept values stand at the same distance
    of_speed: bool = False
    of_gain: bool = False

    def height(self, curve, value):
        """Where a curve stands on the y axis."""
        if self.of_gain:
            return curve.runs[value].share / curve.against[value].share
        return curve.tflops(value) if self.of_speed else curve.runs[value].share

    @property
    def values(self):
        """What is on the x axis."""
        return sorted({value for curve in self.curves for value in curve.runs})


def main():
    parser = command.Parser(description=__doc__.split("\n\n")[0].replace("\n", " "))
    parser.add_argument("--sweep", choices=SWEEPS, required=True, help="which of them")
    parser.add_derived_output("docs/images/SWEEP.png")
    parser.add_selection()
    arguments = parser.parse_args()

    loaded = results.load(arguments.files)
    command.select(loaded, arguments, plain=False)
    sweep = SWEEPS[arguments.sweep](loaded)
    results.require_one_gpu(_runs(sweep))
    output = arguments.output or command.near(
        results.REPOSITORY / "docs" / "images" / f"{arguments.sweep}.png"
    )
    picture.save(draw(sweep), output)


def stages(loaded):
    """Lesson 04: a curve for each tile."""
    shape, runs = _at_one_shape(loaded, 4, ("stages", "tile"))
    return Sweep(
        title="What more stages are worth",
        subtitle=f"{_WHAT} in lesson 04, ring_buffer, at {results.shape_label(shape)}",
        x_label="stages",
        curves=_by_knobs(runs, "stages", "tile", "tile {}"),
    )


def lag(loaded):
    """Lesson 05: a curve for each number of stages."""
    shape, runs = _at_one_shape(loaded, 5, ("stages", "lag"))
    return Sweep(
        title="What releasing a stage later is worth",
        subtitle=f"{_WHAT} in lesson 05, warp_specialization, at {results.shape_label(shape)}",
        x_label="lag, in k-tiles",
        curves=_by_knobs(runs, "lag", "stages", "{} stages"),
    )


def k_sweep(loaded):
    """Lessons 07 and 08 with and without C, each with the knobs that it was measured with at most
    values of K."""
    lessons = {lesson: _of_lesson(loaded, lesson) for lesson in (7, 8)}
    m, n = collections.Counter(
        run.problem.shape[:2] for run in itertools.chain(*lessons.values())
    ).most_common(1)[0][0]
    curves, tiles = [], []
    for (lesson, runs), colour in zip(lessons.items(), picture.COLOURS):
        runs = [run for run in runs if run.problem.shape[:2] == (m, n)]
        values = collections.defaultdict(set)
        for run in runs:
            values[run.knobs].add(run.problem.k)
        if not values:
            raise loaded.nothing(f"run of lesson {lesson:02} at {m}×{n}×K")
        knobs = max(values, key=lambda knobs: len(values[knobs]))
        tiles.append(f"{lesson:02} {runs[0].name}, tile {dict(knobs).get('tile', 'unknown')}")
        for beta in sorted({run.problem.beta for run in runs if run.knobs == knobs}):
            own = {
                run.problem.k: run
                for run in runs
                if run.knobs == knobs and run.problem.beta == beta
            }
            name = f"{lesson:02}, β = {beta:g}"
            curves.append(Curve(name, own, colour, is_dashed=beta != 0))
    curves.sort(key=lambda curve: curve.is_dashed)
    return Sweep(
        title="Cooperative against ping-pong, by K",
        subtitle=f"{_WHAT} at {m}×{n}×K; {'; '.join(tiles)}",
        x_label="K",
        curves=curves,
        compared=[
            (over, under)
            for under, over in itertools.combinations(curves, 2)
            if under.name[2:] == over.name[2:]
        ],
        is_log=True,
    )


def sawtooth(loaded):
    """Lessons 09 and 11 at a growing number of tiles, one column of them."""
    n, tile_m, k = 256, 128, 4096

    def column(lesson):
        return [
            run
            for run in _of_lesson(loaded, lesson)
            if run.problem.is_plain
            and run.problem.shape[1:] == (n, k)
            and run.problem.m % tile_m == 0
        ]

    def by_tiles(runs):
        return {run.problem.m // tile_m: run for run in runs}

    persistent = column(9)
    if not persistent:
        raise loaded.nothing(f"run of lesson 09 at M×{n}×{k}")
    cut = collections.defaultdict(list)
    for run in column(11):
        cut[dict(run.knobs).get("split")].append(run)
    tiles = by_tiles(persistent)
    curves = [
        Curve("cuBLAS", tiles, picture.GREY, is_dashed=True, is_library=True),
        Curve("09", tiles, picture.COLOURS[0]),
    ]
    for split, colour in zip(("data-parallel", "hybrid", "auto"), picture.COLOURS[1:]):
        if cut[split]:
            curves.append(Curve(f"11 {split}", by_tiles(cut[split]), colour))
    return Sweep(
        title="Waves of tiles",
        subtitle=f"Tiles of {tile_m}×{n}, K = {k}; a wave is as many tiles as the GPU has SMs",
        x_label="tiles, not to scale",
        curves=curves,
        is_even=True,
        of_speed=True,
    )


def crossovers(loaded):
    """Lesson 11: the gain of cutting the tail and one wave over whole tiles, two waves of them, by
    how many tiles are in the last one; a curve for each K."""
    n, tile_m, wave = 256, 128, 132
    swept = collections.defaultdict(lambda: collections.defaultdict(dict))
    for run in _of_lesson(loaded, 11):
        knobs = dict(run.knobs)
        tiles = run.problem.m // tile_m
        is_two_waves = run.problem.shape[1] == n and wave < tiles < 2 * wave
        if run.problem.is_plain and is_two_waves and run.problem.m % tile_m == 0:
            swept[run.problem.k][knobs.get("split")][tiles - wave] = run
    curves = []
    for k, colour in zip(sorted(swept), itertools.cycle(picture.COLOURS)):
        whole, cut = swept[k]["data-parallel"], swept[k]["hybrid"]
        both = {tail: run for tail, run in cut.items() if tail in whole}
        if both:
            curves.append(Curve(f"K = {k}", both, colour, against=whole))
    if not curves:
        raise loaded.nothing("run of lesson 11, cut and whole, with two waves of tiles")
    return Sweep(
        title="How full may the last wave be for a cut to pay?",
        subtitle=f"Lesson 11, --split hybrid over data-parallel: {wave} tiles of {tile_m}×{n} and "
        "part of a second wave",
        x_label="tiles in the last wave",
        curves=curves,
        of_gain=True,
    )


SWEEPS = {
    "stages": stages,
    "lag": lag,
    "k_sweep": k_sweep,
    "sawtooth": sawtooth,
    "crossovers": crossovers,
}


def _runs(sweep):
    return [run for curve in sweep.curves for run in curve.runs.values()]


def _of_lesson(loaded, lesson):
    """The runs of a lesson whose problem is A·Bᵀ, or that plus C."""
    runs = [
        run
        for run in loaded.runs
        if run.lesson == lesson
        and run.problem.alpha == 1
        and run.problem.beta in (0, 1)
        and run.problem.flops > 0
        and not run.problem.odd_pitches
    ]
    if not runs:
        raise loaded.nothing(f"run of lesson {lesson:02} to draw")
    return runs


def _at_one_shape(loaded, lesson, knobs):
    """The shape at which most settings were measured, and the runs of A·Bᵀ there."""
    runs = [run for run in _of_lesson(loaded, lesson) if run.problem.is_plain]
    if not runs:
        raise loaded.nothing(f"run of lesson {lesson:02} without C")
    shape = collections.Counter(run.problem.shape for run in runs).most_common(1)[0][0]
    runs = [run for run in runs if run.problem.shape == shape]
    for run in runs:
        for knob in knobs:
            if knob not in dict(run.knobs):
                raise results.BadResults(f"a run of lesson {lesson:02} has no knob {knob}")
    return shape, runs


def _by_knobs(runs, x_knob, curve_knob, name):
    """A curve for each value of `curve_knob`, which `name` words, over the values of `x_knob`."""
    curves = collections.defaultdict(dict)
    for run in runs:
        knobs = dict(run.knobs)
        curves[knobs[curve_knob]][_integer(run, x_knob)] = run
    return [
        Curve(name.format(value), own, colour)
        for (value, own), colour in zip(
            sorted(curves.items(), key=lambda item: (len(item[0]), item[0])),
            itertools.cycle(picture.COLOURS),
        )
    ]


def _integer(run, knob):
    text = dict(run.knobs)[knob]
    if not text.isdecimal():
        raise results.BadResults(f"a run of lesson {run.lesson:02} has {knob} {text}, no number")
    return int(text)


def draw(sweep):
    """The figure."""
    runs = _runs(sweep)
    table = _ROW * (len(sweep.curves) + len(sweep.compared) + 1.5)
    fig = picture.figure(
        title=sweep.title,
        subtitle=sweep.subtitle,
        footer=f"{results.provenance(runs)}\n{results.conditions(runs)}",
        height=_FOOT + table + _AXIS + _CURVES + _TOP,
    )
    curves = _axes(fig, sweep, bottom=_FOOT + table + _AXIS, height=_CURVES)
    _draw_curves(curves, sweep)
    _draw_table(_axes(fig, sweep, bottom=_FOOT, height=table), sweep)
    return fig


def _position(sweep, value):
    """Where a value stands on the x axis."""
    if sweep.is_even:
        return sweep.values.index(value)
    return math.log2(value) if sweep.is_log else value


def _axes(fig, sweep, bottom, height):
    """Axes over the swept values; both pairs share their x positions (inches)."""
    width, total = fig.get_size_inches()
    inside = width - _LEFT - _RIGHT
    axes = fig.add_axes((_LEFT / width, bottom / total, inside / width, height / total))
    first, last = (_position(sweep, sweep.values[end]) for end in (0, -1))
    before, after = 0.45, 0.3
    step = (last - first or 1) / (inside - before - after)
    axes.set_xlim(first - before * step, last + after * step)
    return axes


def _draw_curves(axes, sweep):
    heights = [sweep.height(curve, value) for curve in sweep.curves for value in curve.runs]
    if sweep.of_speed:
        axes.set_ylim(0, 1.08 * max(heights))
        axes.set_ylabel("TFLOP/s")
    else:
        _set_shares(axes, min(heights), max(heights))
        axes.set_ylabel("of the uncut speed" if sweep.of_gain else "share of cuBLAS's speed")
    axes.set_xlabel(sweep.x_label)
    axes.set_xticks([_position(sweep, value) for value in sweep.values], map(str, sweep.values))
    low, high = axes.get_ylim()
    if low < 1 < high and not sweep.of_speed:
        axes.axhline(1, color=picture.INK, linewidth=1.2, linestyle=(0, (5, 3)))
        at = axes.get_yaxis_transform()
        axes.annotate("uncut" if sweep.of_gain else "cuBLAS", (0, 1), (6, 4), xycoords=at, textcoords="offset points")
    ends = []
    for curve in sweep.curves:
        values = sorted(curve.runs)
        x = [_position(sweep, value) for value in values]
        y = [sweep.height(curve, value) for value in values]
        style = {"linestyle": (0, (4, 2))} if curve.is_dashed else {}
        axes.plot(
            x, y, color=curve.colour, marker="o", markeredgecolor="white", clip_on=False, **style
        )
        ends.append((curve.name, (x[-1], y[-1]), curve.colour))
    picture.label_at_right(axes, ends)


def _set_shares(axes, lowest, highest):
    """A y axis around the shares, from 0 on unless they are close to each other."""
    if lowest < highest / 2:
        lowest = 0
    span = max(highest - lowest, 0.02)
    step = next(step for step in (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 10) if span < 8 * step)
    low, high = max(0, math.floor(lowest / step - 0.3)), math.ceil(highest / step + 0.3)
    axes.set_ylim(low * step, high * step)
    ticks = [tick * step for tick in range(low, high + 1)]
    decimals = 1 if step < 0.01 else 0
    axes.set_yticks(ticks, [f"{100 * tick:.{decimals}f} %" for tick in ticks])


def _draw_table(axes, sweep):
    """A row a curve and a row a comparison, a column a swept value."""
    axes.set_axis_off()
    axes.set_ylim(len(sweep.curves) + len(sweep.compared) + 1, -0.5)

    def head(row, text, **style):
        style = {"ha": "right", "va": "center", **style}
        axes.text(-0.02, row, text, transform=axes.get_yaxis_transform(), **style)

    def cells(row, text_of):
        for value in sweep.values:
            position = _position(sweep, value)
            axes.text(position, row, text_of(value), ha="center", va="center", fontsize=9)

    head(0, "gain" if sweep.of_gain else "TFLOP/s", weight="bold")
    axes.axhline(0.5, color=picture.GREY, linewidth=0.8)
    for row, curve in enumerate(sweep.curves, 1):
        head(row, curve.name, color=curve.colour, weight="bold")
        cells(row, lambda value: _figure(sweep, curve, value))
    for row, (over, under) in enumerate(sweep.compared, len(sweep.curves) + 1):
        head(row, f"{over.name[:2]} over {under.name}")
        cells(row, lambda value: _ratio(over, under, value))


def _figure(sweep, curve, value):
    if value not in curve.runs:
        return "–"
    if sweep.of_gain:
        return f"{sweep.height(curve, value):.2f}"
    return results.three_digits(curve.tflops(value))


def _ratio(over, under, value):
    """Of the shares: each was measured beside the library, at the clock of its time."""
    if value not in over.runs or value not in under.runs:
        return "–"
    return f"{over.runs[value].share / under.runs[value].share:.3f}"


if __name__ == "__main__":
    command.run(main)
