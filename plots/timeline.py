"""Draws timelines: what each role of a kernel does on one SM, and when.

Work is tall, waiting is low. The lowest row has the moments in which any role multiplies: its holes
are the time in which the tensor cores have nothing to do. Several files are drawn one below the
other, over stretches of time of the same length.
"""

import argparse
import pathlib
import re
import textwrap

import command
import picture
import results
import traces

# Colours that colour-blind readers can tell apart; waiting is low besides, whatever its colour.
COLOURS = {
    "load": "#0072B2",
    "multiply": "#009E73",
    "epilogue": "#D55E00",
    "store": "#4D4D4D",
    "schedule": "#F0E442",
    "wait empty": "#56B4E9",
    "wait full": "#E69F00",
    "wait turn": "#CC79A7",
}
MOST_ROWS = 24
# So many spans of a track can be told apart over the width of the picture.
MOST_SPANS = 72

# The layout, in inches.
_WIDTH = 9
_LEFT, _RIGHT, _TOP, _FOOT = 1.75, 0.95, 0.85, 0.5
_HEAD, _ROW, _AXIS, _LEGEND = 0.34, 0.27, 0.52, 0.3
_TITLE_LINE, _TITLE_CHARACTERS = 0.19, 66

_WORK, _WAIT = 0.74, 0.26  # heights, of a row's


def main():
    parser = command.Parser(
        description=__doc__.split("\n\n")[0], files="trace files (--trace of the lessons)"
    )
    parser.add_derived_output("docs/images/timelineNN.png, by lesson")
    parser.add_argument("--sm", type=_index, help="whose CTAs to draw (default: the first traced)")
    parser.add_argument("--cta", type=_index, help="draw this CTA alone")
    parser.add_argument(
        "--window",
        type=_window,
        metavar="BEGIN:END",
        help="microseconds to draw (default: all, or if that is too much, about the first epilogue "
        "that other work follows)",
    )
    arguments = parser.parse_args()
    if arguments.sm is not None and arguments.cta is not None:
        parser.error("--sm and --cta do not go together: a CTA is on one SM")

    drawn = []
    for path in map(pathlib.Path, arguments.files):
        trace = traces.read(path)
        tracks = choose(path, trace, arguments.sm, arguments.cta)
        drawn.append((path, trace, tracks))
    windows = [arguments.window or default_window(tracks) for _, _, tracks in drawn]
    length = max(end - begin for begin, end in windows)
    panels = [
        Panel(path, trace, tracks, begin, begin + length)
        for (path, trace, tracks), (begin, _) in zip(drawn, windows)
    ]
    results.require_one_gpu([trace for _, trace, _ in drawn])
    name = "_".join(f"{trace.lesson:02}" for _, trace, _ in drawn)
    output = arguments.output or command.near(
        results.REPOSITORY / "docs" / "images" / f"timeline{name}.png"
    )
    picture.save(draw(panels), output)


def choose(path, trace, sm, cta):
    """The tracks to draw. Throws BadResults if there are none."""
    if cta is not None:
        tracks = trace.of_cta(cta)
        found, wanted = {track.cta for track in trace.tracks}, f"CTA {cta}"
    else:
        found = {track.sm for track in trace.tracks}
        sm = min(found) if sm is None else sm
        tracks, wanted = trace.on_sm(sm), f"SM {sm}"
    if not tracks:
        kind = wanted.split()[0]
        some = ", ".join(map(str, sorted(found)[:8])) + (", ..." if len(found) > 8 else "")
        raise results.BadResults(f"{path}: {wanted} was not traced; there is {kind} {some}")
    return tracks


def default_window(tracks):
    """All of it, or as much as can be told apart: about the first epilogue with work behind it."""
    spans = [span for track in tracks for span in track.spans]
    begin, end = min(span.begin for span in spans), max(span.end for span in spans)
    densest = max(tracks, key=lambda track: len(track.spans))
    if len(densest.spans) <= MOST_SPANS:
        return begin, end
    step = (densest.spans[-1].end - densest.spans[0].begin) / len(densest.spans)
    length = min(step * MOST_SPANS, end - begin)
    middle = _first_gap(tracks)
    start = begin if middle is None else middle - length / 2
    start = max(begin, min(start, end - length))
    return start, start + length


def _first_gap(tracks):
    """The middle of the first epilogue behind which some role still multiplies."""
    spans = [span for track in tracks for span in track.spans]
    last_product = max((span.end for span in spans if span.name == "multiply"), default=0)
    epilogues = [span for span in spans if span.name == "epilogue" and span.end < last_product]
    return min(((span.begin + span.end) / 2 for span in epilogues), default=None)


class Panel:
    """The rows of one trace between two moments (microseconds). Throws BadResults."""

    def __init__(self, path, trace, tracks, begin, end):
        self.trace = trace
        self.begin, self.end = begin, end
        self.rows = [track for track in tracks if track.within(begin, end)]
        if not self.rows:
            raise results.BadResults(f"{path}: nothing happens from {begin:g} to {end:g} µs")
        if len(self.rows) > MOST_ROWS:
            raise results.BadResults(
                f"{path}: {len(self.rows)} rows do not fit, at most {MOST_ROWS}; "
                "draw one CTA (--cta) or less time (--window)"
            )
        self.has_one_cta = len({track.cta for track in self.rows}) == 1

    @property
    def height(self):
        return self.head + _ROW * (len(self.rows) + 1) + _AXIS

    @property
    def head(self):
        """What the title takes."""
        return _HEAD + _TITLE_LINE * self.title.count("\n")

    @property
    def title(self):
        trace = self.trace
        where = f"SM {self.rows[0].sm}" + (f", CTA {self.rows[0].cta}" if self.has_one_cta else "")
        knobs = [f"{knob} {value}" for knob, value in trace.knobs]
        text = ", ".join([results.shape_label(trace.shape), *knobs, where])
        return "\n".join(textwrap.wrap(text, _TITLE_CHARACTERS))

    def label(self, track):
        return track.name if self.has_one_cta else f"CTA {track.cta}, {track.name}"

    def names(self):
        return {
            span.name for track in self.rows for span in track.within(self.begin, self.end)
        }

    def multiplying(self):
        """The stretches in which any row multiplies, as (begin, end), in order and apart."""
        spans = sorted(
            (max(span.begin, self.begin), min(span.end, self.end))
            for track in self.rows
            for span in track.within(self.begin, self.end)
            if span.name == "multiply"
        )
        merged = []
        for begin, end in spans:
            if merged and begin <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], end))
            else:
                merged.append((begin, end))
        return merged

    def share_multiplying(self):
        """Of the time that is drawn and in which the kernel ran."""
        ends = [span.end for track in self.rows for span in track.spans]
        begins = [span.begin for track in self.rows for span in track.spans]
        ran = min(self.end, max(ends)) - max(self.begin, min(begins))
        return sum(end - begin for begin, end in self.multiplying()) / ran


def draw(panels):
    """The figure of some panels, one below the other."""
    height = _TOP + _LEGEND + sum(panel.height for panel in panels) + _FOOT
    all_traces = [panel.trace for panel in panels]
    is_model = any(trace.is_model_time for trace in all_traces)
    lessons = dict.fromkeys(f"{trace.lesson:02} {trace.name}" for trace in all_traces)
    fig = picture.figure(
        title=f"Who does what, and when: {' and '.join(lessons)}",
        subtitle=(
            "On the emulator, in model time: an order of events, and no measurement"
            if is_model
            else "Work is tall, waiting is low; the lowest row shows when any role multiplies"
        ),
        footer=_footer(all_traces),
        width=_WIDTH,
        height=height,
    )
    _draw_legend(fig, set().union(*(panel.names() for panel in panels)), height)
    top = height - _TOP - _LEGEND
    for panel in panels:
        inside = _ROW * (len(panel.rows) + 1)
        bottom = top - panel.head - inside
        axes = fig.add_axes(
            (
                _LEFT / _WIDTH,
                bottom / height,
                (_WIDTH - _LEFT - _RIGHT) / _WIDTH,
                inside / height,
            )
        )
        fig.text(_LEFT / _WIDTH, (top - 0.12) / height, panel.title, va="top", fontweight="bold")
        _draw_panel(axes, panel, is_model)
        top -= panel.height
    return fig


def _footer(all_traces):
    clocks = sorted({f"{trace.clock_mhz:.0f} MHz" for trace in all_traces if trace.clock_mhz})
    parts = [results.provenance(all_traces), *(f"SM clock {clock}" for clock in clocks)]
    if not any(trace.is_model_time for trace in all_traces):
        parts.append("the traced kernel, which writes its own time stamps")
    if any(trace.lost for trace in all_traces):
        parts.append("some spans were not recorded")
    return ", ".join(parts)


def _draw_legend(fig, names, height):
    import matplotlib.patches

    patches = [
        matplotlib.patches.Patch(color=COLOURS[name], label=name)
        for name in traces.SPANS
        if name in names
    ]
    fig.legend(
        handles=patches,
        loc="upper left",
        bbox_to_anchor=(_LEFT / _WIDTH - 0.005, 1 - (_TOP - 0.05) / height),
        ncols=len(patches),
        frameon=False,
        borderpad=0,
        borderaxespad=0,
        handlelength=1.2,
        handletextpad=0.5,
        columnspacing=1.3,
        fontsize=9,
    )


def _draw_panel(axes, panel, is_model):
    axes.set_xlim(0, panel.end - panel.begin)
    axes.set_ylim(len(panel.rows) + 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    axes.spines["left"].set_visible(False)
    for row, track in enumerate(panel.rows):
        _draw_track(axes, panel, row, track)
    bottom = len(panel.rows)
    axes.axhline(bottom - 0.5, color=picture.GREY, linewidth=0.8)
    axes.broken_barh(
        [(begin - panel.begin, end - begin) for begin, end in panel.multiplying()],
        (bottom - _WORK / 2, _WORK),
        facecolors=COLOURS["multiply"],
        linewidth=0,
    )
    axes.annotate(
        f"{results.percent(panel.share_multiplying())}\nof the time",
        (1, bottom),
        (6, 0),
        xycoords=axes.get_yaxis_transform(),
        textcoords="offset points",
        va="center",
        fontsize=8.5,
        annotation_clip=False,
    )
    axes.set_yticks(
        range(bottom + 1), [*(panel.label(track) for track in panel.rows), "any multiply"]
    )
    axes.get_yticklabels()[-1].set_fontweight("bold")
    unit = "model time, in thousands" if is_model else "µs"
    since = f" since {panel.begin:.1f}" if panel.begin >= 0.05 else ""
    axes.set_xlabel(f"{unit}{since}")


def _draw_track(axes, panel, row, track):
    for name in traces.SPANS:
        height = _WAIT if name.startswith("wait") else _WORK
        axes.broken_barh(
            [
                (span.begin - panel.begin, span.end - span.begin)
                for span in track.within(panel.begin, panel.end)
                if span.name == name
            ],
            (row - height / 2, height),
            facecolors=COLOURS[name],
            # A white edge keeps products apart; the others' own colour keeps short ones visible.
            edgecolor="white" if name == "multiply" else COLOURS[name],
            linewidth=0.4,
        )


def _index(text):
    if not re.fullmatch(r"\d{1,9}", text):
        raise argparse.ArgumentTypeError(f"{text} is not a whole number")
    return int(text)


def _window(text):
    match = re.fullmatch(r"(\d+(?:\.\d+)?):(\d+(?:\.\d+)?)", text)
    if not match or float(match[1]) >= float(match[2]):
        raise argparse.ArgumentTypeError(f"{text} is not like 1.5:4, microseconds from and to")
    return float(match[1]), float(match[2])


if __name__ == "__main__":
    command.run(main)
