"""Draws the roofline that lesson 00 measured, with the lessons and cuBLAS under it.

A problem stands at its arithmetic intensity: FLOPs over compulsory bytes, each input read once and
D written once. A lesson measured with several knobs stands at its fastest. Sweeps over M alone are
left out: their problems stand at nearly the same intensity.
"""

import collections
import math

import command
import picture
import results

# The layout, in inches.
_LEFT, _RIGHT, _TOP, _BOTTOM = 0.85, 1.95, 1.75, 1.1
_SLANT = 35  # degrees, of the names over the guides


def main():
    parser = command.Parser(description=__doc__.split("\n\n")[0])
    parser.add_output("roofline.png")
    parser.add_selection()
    arguments = parser.parse_args()

    loaded = results.load(arguments.files)
    if not loaded.rooflines:
        raise loaded.nothing("record of lesson 00")
    command.select(loaded, arguments)
    results.require_one_gpu(loaded.rooflines + loaded.runs)

    runs = without_sweeps(loaded.runs)
    picture.save(draw(loaded.rooflines[0], runs), arguments.output)
    if left_out := loaded.left_out():
        command.say(left_out)


def without_sweeps(runs):
    """The runs but for those of problems with the same N and K at four sizes of M or more."""
    swept = collections.defaultdict(set)
    for run in runs:
        m, *others = run.problem.shape
        swept[tuple(others)].add(m)
    return [run for run in runs if len(swept[tuple(run.problem.shape[1:])]) < 4]


def draw(roofline, runs):
    """The figure of `runs` (one protocol, one kind of inputs) under `roofline`, all of one GPU."""
    fig = picture.figure(
        title="What limits each problem: memory or tensor cores",
        subtitle="The two measured ceilings, and the speed of each lesson and of cuBLAS below them",
        footer=results.provenance([roofline, *runs])
        + (f"\n{results.conditions(runs)}" if runs else ""),
        height=7,
    )
    width, height = fig.get_size_inches()
    axes = fig.add_axes(
        (
            _LEFT / width,
            _BOTTOM / height,
            (width - _LEFT - _RIGHT) / width,
            (height - _TOP - _BOTTOM) / height,
        )
    )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.minorticks_off()
    axes.set_xlabel("arithmetic intensity, FLOP per compulsory byte")
    axes.set_ylabel("TFLOP/s")
    _set_limits(axes, roofline, runs)
    _draw_ceilings(axes, roofline)
    _draw_guides(axes, roofline, runs)
    if runs:
        _draw_speeds(axes, runs)
    return fig


def _set_limits(axes, roofline, runs):
    intensities = [roofline.ridge, *(run.problem.intensity for run in runs)]
    speeds = [run.timed.tflops for run in runs] or [roofline.wgmma.value * 1e-12 / 30]
    axes.set_xlim(min(roofline.ridge / 6, min(intensities) / 2), 2 * max(intensities))
    axes.set_ylim(min(speeds) / 4, roofline.wgmma_on_zeros.value * 1e-12 * 3)
    _label(axes.set_xticks, *axes.get_xlim())
    _label(axes.set_yticks, *axes.get_ylim())


def _label(set_ticks, low, high):
    """Plain numbers for ticks, where matplotlib would write powers of ten."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1, 2, 5) if last - first < 6 else (1,)
    ticks = [step * 10.0**power for power in range(first, last + 1) for step in steps]
    ticks = [tick for tick in ticks if low <= tick <= high]
    set_ticks(ticks, [f"{tick:,.10g}" for tick in ticks])


def _draw_ceilings(axes, roofline):
    left, right = axes.get_xlim()
    copy, peak = roofline.copy.value * 1e-12, roofline.wgmma.value * 1e-12
    zeros = roofline.wgmma_on_zeros.value * 1e-12
    axes.plot([left, roofline.ridge, right], [left * copy, peak, peak], color=picture.INK)
    axes.plot([zeros / copy, right], [zeros, zeros], color=picture.GREY, linestyle=(0, (4, 2)))
    axes.plot([roofline.ridge], [peak], marker="D", color=picture.INK)

    # On a log scale the two peaks nearly touch, so their labels stand above both.
    labels = [
        ("random numbers", roofline.wgmma, picture.INK),
        ("zeros", roofline.wgmma_on_zeros, picture.GREY),
    ]
    for rank, (name, ceiling, colour) in enumerate(labels):
        tflops = results.three_digits(ceiling.value * 1e-12)
        clock = f" at {ceiling.clock_mhz:.0f} MHz" if ceiling.clock_mhz else ""
        axes.annotate(
            f"wgmma on {name}: {tflops} TFLOP/s{clock}",
            (right, zeros),
            (-4, 7 + 15 * rank),
            textcoords="offset points",
            ha="right",
            color=colour,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )
    middle = math.sqrt(left * roofline.ridge)
    (x0, y0), (x1, y1) = axes.transData.transform([(left, left * copy), (middle, middle * copy)])
    axes.annotate(
        f"memory: {results.three_digits(copy)} TB/s",
        (middle, middle * copy),
        (-3, 6),
        textcoords="offset points",
        ha="center",
        va="center",
        rotation=math.degrees(math.atan2(y1 - y0, x1 - x0)),
        rotation_mode="anchor",
    )


def _draw_guides(axes, roofline, runs):
    """A vertical guide at the ridge and at each shape's intensity, its name over its head."""
    guides = [(roofline.ridge, f"ridge: {roofline.ridge:.0f} FLOP/byte", picture.INK)]
    shapes = {run.problem.shape: run.problem.intensity for run in runs}
    guides += [(x, results.shape_label(shape), picture.GREY) for shape, x in shapes.items()]
    box = axes.get_window_extent()
    pixels = [axes.transData.transform((x, axes.get_ylim()[1]))[0] for x, _, _ in guides]
    gap = picture.line_height(axes) / math.sin(math.radians(_SLANT))
    for (x, text, colour), left in zip(guides, picture.spread(pixels, gap, box.x0, box.x1)):
        axes.axvline(x, color=colour, linewidth=0.8, linestyle=(0, (1, 3)))
        axes.annotate(
            text,
            (left - box.x0, box.height + 0.05 * axes.figure.dpi),
            xycoords="axes pixels",
            rotation=_SLANT,
            rotation_mode="anchor",
            color=colour,
            annotation_clip=False,
        )


def _draw_speeds(axes, runs):
    """A point for each lesson and shape, in the lesson's colour, and cuBLAS as crosses."""
    best = results.fastest(runs)
    names = results.lesson_names(runs)
    ends = []

    def draw(name, colour, marker, points):
        x, y = zip(*points)
        axes.plot(x, y, color=colour, marker=marker, linestyle="none", markeredgewidth=1.5)
        ends.append((name, max(points), colour))

    for lesson, colour in zip(names, picture.ordinal_colours(len(names))):
        own = [run for run in best.values() if run.lesson == lesson]
        points = [(run.problem.intensity, run.timed.tflops) for run in own]
        draw(f"{lesson:02} {names[lesson]}", colour, "o", points)
    intensities = {run.problem.shape: run.problem.intensity for run in runs}
    library = results.library_tflops(runs)
    points = [(intensities[shape], tflops) for shape, tflops in library.items()]
    draw("cuBLAS", picture.INK, "x", points)
    picture.label_at_right(axes, ends)


if __name__ == "__main__":
    command.run(main)
