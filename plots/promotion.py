"""Draws what lesson 15's sums of 8-bit floats lose as K grows, and what promotion keeps.

Reads records of lesson 15 (--json), timed or not, right or wrong: a panel for each of --values, a
curve for each of --promote, over K. The emulator adds 8-bit floats as an H200 does, bit for bit, so
its records will do; the footer says whose they are.
"""

import collections

import command
import picture
import record_files

INTERVALS = ("never", "8", "4", "2", "1")
TITLES = {"ordinary": "products of both signs", "positive": "products of one sign"}


def main():
    parser = command.Parser(
        description=__doc__.split("\n\n")[0], files="records of lesson 15, or directories of them"
    )
    parser.add_output("promotion.png")
    arguments = parser.parse_args()
    panels, where = read(arguments.files)
    picture.save(draw(panels, where), arguments.output)


def read(paths):
    """The relative errors of D as {values: {interval: {k: error}}}, and on which machines."""
    panels = collections.defaultdict(lambda: collections.defaultdict(dict))
    settings, machines = set(), set()
    for path in record_files.files_in(paths):
        for fields in record_files.read(path):
            if fields.text("kind") != "fp8" or not fields.is_null("break"):
                continue
            verdict, problem = fields.child("verdict"), fields.child("problem")
            if not verdict.has("relative_error"):
                continue
            knobs = dict(fields.strings("knobs"))
            values, interval = knobs.pop("values"), knobs.pop("promote")
            knobs.pop("tile")  # does not change a sum
            settings.add((problem.text("init"), *sorted(knobs.items())))
            machines.add(fields.child("machine").text("gpu"))
            k = problem.integer("k", least=1)
            panels[values][interval][k] = verdict.number("relative_error")
    if not panels:
        raise record_files.BadResults("there is no record of lesson 15 that says its relative error")
    if len(settings) > 1:
        raise record_files.BadResults(
            "the records of lesson 15 differ in more than K, --promote and --values; "
            "draw each kind alone"
        )
    return panels, ", ".join(sorted(machines))


def draw(panels, where):
    """The figure."""
    fig = picture.figure(
        title="What the sums of 8-bit floats lose",
        subtitle="Error of D over D, root mean square, by --promote in k-tiles of 128",
        footer=f"Lesson 15, N(0, 1) rounded to e4m3, D in bf16; {where}",
    )
    shown = [values for values in TITLES if values in panels]
    width = 0.76 / len(shown)
    first = None
    for place, values in enumerate(shown):
        axes = fig.add_axes((0.09 + place * width, 0.14, width - 0.03, 0.66), sharey=first)
        first = first or axes
        axes.set_title(TITLES[values], fontsize=10, loc="left")
        for interval, colour in zip(INTERVALS, picture.COLOURS):
            if interval in panels[values]:
                points = sorted(panels[values][interval].items())
                axes.plot(*zip(*points), marker="o", color=colour, label=name(interval))
        axes.tick_params(labelleft=place == 0)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel("K")
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return fig


def name(interval):
    if interval == "never":
        return "never"
    return f"every {interval}" if interval != "1" else "each k-tile"


if __name__ == "__main__":
    command.run(main)
