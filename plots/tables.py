"""Writes the measured tables of README.md and docs/ from result files.

A table stands between two lines of its own:

    <!-- table: lesson03 protocol=sustained -->
    <!-- end -->

`ladder` has all lessons that compute one product, `lessonNN` one lesson's problems and knobs,
`ceilings` lesson 00's figures.
`init=` (default normal) and `protocol=` (default interleaved) choose the runs. `across=KNOB` gives a
lesson's table a column for each value of that knob; `least=` leaves out rows with fewer values than
that (default 2). `across=shape` gives it a column for each problem size.
"""

import collections
import functools
import itertools
import math
import os
import pathlib
import re

import command
import results

_BEGIN = "<!-- table: "
_MARKER = re.compile(re.escape(_BEGIN) + r"(?P<name>\w+)(?P<options>( \w+=\w+)*) -->")
_END = "<!-- end -->"
_DEFAULTS = {"init": "normal", "protocol": "interleaved", "across": None, "least": "2"}
_TRICK = re.compile(r'\.trick\s*=\s*((?:"[^"]*"\s*)+)')
_NOTHING = "–"


def main():
    parser = command.Parser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; say what is stale")
    parser.add_argument(
        "--docs",
        nargs="+",
        type=pathlib.Path,
        metavar="PAGE",
        default=[
            command.near(results.REPOSITORY / "README.md"),
            *map(command.near, sorted((results.REPOSITORY / "docs").glob("*.md"))),
        ],
        help="the pages whose tables to write (default: README.md and docs/*.md)",
    )
    arguments = parser.parse_args()

    loaded = results.load(arguments.files)
    results.require_one_gpu(loaded.runs + loaded.grouped + loaded.rooflines)
    pages = {page: _read(page) for page in arguments.docs}
    rewritten = {page: rewrite(page, text, loaded) for page, text in pages.items()}
    if left_out := loaded.left_out():
        command.say(left_out)
    if arguments.check:
        stale = [(page, name) for page, (_, names) in rewritten.items() for name in names]
        for page, name in stale:
            command.say(f"{page}: the table {name} is stale; `make tables` writes it anew")
        return 1 if stale else 0
    for page, (text, stale) in rewritten.items():
        if stale:
            command.replace(page, text.encode())
            print(page)
    return 0


def rewrite(page, text, loaded):
    """The page with all its tables made anew, and the names of those that were not so before."""
    lines = text.split("\n")
    out, stale = [], []
    index = 0
    while index < len(lines):
        line = lines[index]
        out.append(line)
        index += 1
        if not line.startswith(_BEGIN):
            continue
        where = f"{page}:{index}"
        marker = _MARKER.fullmatch(line)
        if not marker:
            raise results.BadResults(f"{where}: the marker is not like {_BEGIN}NAME KEY=VALUE -->")
        old = list(itertools.takewhile(lambda line: line != _END, lines[index:]))
        if index + len(old) == len(lines) or any(line.startswith(_BEGIN) for line in old):
            raise results.BadResults(f"{where}: no line {_END} ends this table")
        new = _table(where, page, marker, loaded)
        if new != old:
            stale.append(marker["name"])
        out += new
        index += len(old)
    return "\n".join(out), stale


def _table(where, page, marker, loaded):
    """The lines between the markers."""
    options = dict(_DEFAULTS)
    for key, value in re.findall(r"(\w+)=(\w+)", marker["options"]):
        if key not in options:
            raise results.BadResults(
                f"{where}: the option {key} is not known, only init, protocol, across and least"
            )
        options[key] = value
    chosen = (options["init"], options["protocol"])
    runs, grouped = (
        [run for run in source if (run.problem.init, run.protocol) == chosen]
        for source in (loaded.runs, loaded.grouped)
    )

    name = marker["name"]
    if name == "ceilings":
        sources, make = loaded.rooflines, _ceilings
    elif name == "ladder":
        sources, make = [run for run in runs if run.problem.is_plain], _ladder
    elif re.fullmatch(r"lesson\d\d", name):
        sources, make = [run for run in runs if run.lesson == int(name[-2:])], _lesson
        grouped = [run for run in grouped if run.lesson == int(name[-2:])]
        if grouped and not options["across"]:
            sources, make = grouped, _grouped
        elif options["across"] == "shape":
            make = _across_shapes
        elif options["across"]:
            if not options["least"].isdecimal():
                raise results.BadResults(f"{where}: least={options['least']} is no number")
            make = functools.partial(_across, options["across"], int(options["least"]))
            sources = [run for run in sources if options["across"] in dict(run.knobs)]
    else:
        raise results.BadResults(
            f"{where}: the table {name} is not known, only ladder, lessonNN and ceilings"
        )
    if not sources:
        raise loaded.nothing(f"measurement for the table {name}", where)
    table, remarks = make(sources, page)
    if sources is not loaded.rooflines:
        remarks.append(results.conditions(sources))
    caption = "; ".join([*remarks, results.provenance(sources)])
    return [*table, "", f"<sub>{caption[0].upper()}{caption[1:]}.</sub>"]


def _ladder(runs, page):
    """A row a lesson, a column a size: of those that half of the lessons have, at least."""
    best = results.fastest(runs)
    lessons = sorted({lesson for lesson, _ in best})
    common = collections.Counter(shape for _, shape in best)
    shapes = sorted((s for s in common if 2 * common[s] >= len(lessons)), key=results.work)
    library = results.library_tflops(runs)
    rows = []
    for lesson in lessons:
        at_shapes = [best.get((lesson, shape)) for shape in shapes]
        cells = [
            (
                f"{results.three_digits(run.timed.tflops)} ({results.percent(run.share)})"
                if run
                else _NOTHING
            )
            for run in at_shapes
        ]
        rows.append([*_title(lesson, page), *cells])
    rows.append(["cuBLAS", "", *(results.three_digits(library[shape]) for shape in shapes)])
    head = ["lesson", "trick", *map(results.shape_label, shapes)]
    remarks = ["TFLOP/s, in brackets the share of cuBLAS's speed"]
    if len(best) < len(runs):
        remarks.append("each lesson at its fastest knobs")
    return _markdown(head, rows, text_columns=2), remarks


def _lesson(runs, _):
    """A row a shape and setting, the fastest setting of a shape first."""
    runs = sorted(runs, key=lambda run: (results.work(run.problem.shape), -run.share))
    columns = {
        "M×N×K": lambda run: results.shape_label(run.problem.shape),
        "setting": _setting,
        "time, ms (quartiles)": lambda run: _time(run.timed),
        "TFLOP/s": lambda run: results.three_digits(run.timed.tflops),
        "cuBLAS, TFLOP/s": lambda run: results.three_digits(run.library.tflops),
        "share of cuBLAS": lambda run: results.percent(run.share),
        "share of cuBLASLt's best": lambda run: _optional(results.percent, run.share_of_best),
        "clock, MHz": lambda run: _optional("{:.0f}".format, run.timed.clock_mhz),
        "power, W": lambda run: _optional("{:.0f}".format, run.timed.power_w),
    }
    rows = [[cell(run) for cell in columns.values()] for run in runs]
    filled = [any(row[column] != _NOTHING for row in rows) for column in range(len(columns))]
    remarks = []
    if any(run.timed.late for run in runs):
        remarks.append("\\* may hold launch cost")
    table = _markdown(
        list(itertools.compress(columns, filled)),
        [list(itertools.compress(row, filled)) for row in rows],
        text_columns=2 if filled[1] else 1,
    )
    return table, remarks


def _grouped(runs, _):
    """A row a list of problems and setting: first the lists with a name, then by what is computed."""
    runs = sorted(runs, key=_list_order)
    rows = [
        [
            _list_name(run),
            _grouped_setting(run),
            _time(run.timed),
            results.three_digits(run.timed.tflops),
            results.percent(run.share),
            results.percent(run.share_of_loop),
        ]
        for run in runs
    ]
    head = ["problems", "setting", "time, ms (quartiles)", "TFLOP/s"]
    head += ["share of the grouped call", "share of the loop"]
    names = f"the grouped call is {runs[0].library.name}, the loop {runs[0].loop.name}"
    late = ["\\* may hold launch cost"] if any(run.timed.late for run in runs) else []
    return _markdown(head, rows, text_columns=2), [names, *late]


def _list_order(run):
    """Of runs of the same list, the one with the largest share first."""
    name = dict(run.knobs)["groups"]
    is_named = not name[0].isdigit()
    work = name if is_named else (-run.problem.flops, run.problem.groups, name)
    return (not is_named, work, -run.share)


def _list_name(run):
    name = dict(run.knobs)["groups"]
    return f"`{name}`" if name[0].isdigit() else name


def _grouped_setting(run):
    """Knobs but for the list, and what is not plain about its problems."""
    hidden = ("groups", "auto")
    items = [item for item in _setting_items(run) if not set(item) & set(hidden)]
    return ", ".join(f"{name} {value}" for name, value in items) or _NOTHING


def _across(knob, least, runs, _):
    """A row a shape and setting of the other knobs, a column a value of `knob`; rows with fewer
    values than `least` are left out."""
    rows = collections.defaultdict(dict)
    for run in runs:
        others = tuple(item for item in _setting_items(run) if item[0] != knob)
        rows[run.problem.shape, others][dict(run.knobs)[knob]] = run
    rows = {key: cells for key, cells in rows.items() if len(cells) >= least}
    # What all rows have in common says nothing.
    common = set.intersection(*(set(others) for _, others in rows)) if rows else set()
    values = list(dict.fromkeys(value for cells in rows.values() for value in cells))
    if all(value.isdecimal() for value in values):
        values.sort(key=int)
    body = []
    for (shape, others), cells in sorted(rows.items(), key=lambda row: results.work(row[0][0])):
        setting = ", ".join(f"{name} {value}" for name, value in others if (name, value) not in common)
        texts = (
            f"{results.three_digits(run.timed.tflops)} ({results.percent(run.share)})" if run else _NOTHING
            for run in map(cells.get, values)
        )
        body.append([results.shape_label(shape), setting or _NOTHING, *texts])
    head = ["M×N×K", "setting", *(f"{knob} {value}" for value in values)]
    text_columns = 2
    if all(row[1] == _NOTHING for row in body):
        head, body, text_columns = head[:1] + head[2:], [row[:1] + row[2:] for row in body], 1
    remarks = ["TFLOP/s, in brackets the share of cuBLAS's speed"]
    return _markdown(head, body, text_columns), remarks


def _across_shapes(runs, _):
    """A row a setting, in the order of the measurement, and a column a shape."""
    rows = collections.defaultdict(dict)
    for run in runs:
        rows[tuple(_setting_items(run))][run.problem.shape] = run
    common = set.intersection(*map(set, rows))
    shapes = sorted({run.problem.shape for run in runs}, key=results.work)
    body = []
    for items, cells in rows.items():
        setting = ", ".join(f"{name} {value}" for name, value in items if (name, value) not in common)
        texts = (
            f"{results.three_digits(1000 * run.timed.ms)} ({results.percent(run.share)})"
            if run
            else _NOTHING
            for run in map(cells.get, shapes)
        )
        body.append([setting or _NOTHING, *texts])
    head = ["setting", *map(results.shape_label, shapes)]
    return _markdown(head, body, text_columns=1), ["times in µs, in brackets the share of cuBLAS's speed"]


def _ceilings(rooflines, _):
    """A row a ceiling, and the ridge point."""
    (roofline,) = rooflines
    ceilings = [
        ("copy, bytes read and written", roofline.copy, "TB/s"),
        ("wgmma on random numbers", roofline.wgmma, "TFLOP/s"),
        ("wgmma on zeros", roofline.wgmma_on_zeros, "TFLOP/s"),
    ]
    rows = [
        [
            name,
            f"{results.three_digits(ceiling.value * 1e-12)} {unit}",
            _optional("{:.0f}".format, ceiling.clock_mhz),
            _optional("{:.0f}".format, ceiling.power_w),
        ]
        for name, ceiling, unit in ceilings
    ]
    rows.append(["ridge point, on random numbers", f"{roofline.ridge:.0f} FLOP/byte", "", ""])
    return _markdown(["ceiling", "measured", "clock, MHz", "power, W"], rows, text_columns=1), []


def _title(lesson, page):
    """The lesson's name, linked to its note, and its trick, as its source words it."""
    sources = list((results.REPOSITORY / "lessons").glob(f"lesson{lesson:02}_*.cu"))
    trick = _TRICK.search(sources[0].read_text(encoding="utf-8")) if sources else None
    if not trick:
        raise results.BadResults(f"no lessons/lesson{lesson:02}_*.cu says what its .trick is")
    stem = sources[0].stem
    note = os.path.relpath(results.REPOSITORY / "docs" / f"{stem}.md", page.resolve().parent)
    name = stem[len("lesson") :].replace("_", " ", 1)
    return f"[{name}]({note})", "".join(re.findall(r'"([^"]*)"', trick[1]))


def _setting(run):
    """Knobs, and what is not plain about the problem."""
    return ", ".join(f"{name} {value}" for name, value in _setting_items(run)) or _NOTHING


def _setting_items(run):
    """The setting as pairs of a name and a value."""
    problem = run.problem
    items = list(run.knobs)
    if (problem.alpha, problem.beta) != (1, 0):
        items += [("α", f"{problem.alpha:g}"), ("β", f"{problem.beta:g}")]
    return items + list(problem.odd_pitches.items())


def _time(timed):
    decimals = max(3 - math.floor(math.log10(timed.ms)), 0)
    median, lower, upper = (
        f"{ms:.{decimals}f}" for ms in (timed.ms, timed.lower_quartile_ms, timed.upper_quartile_ms)
    )
    return f"{median} ({lower}–{upper})" + ("\\*" if timed.late else "")


def _optional(text, value):
    return _NOTHING if value is None else text(value)


def _markdown(head, rows, text_columns):
    """The lines of a table; columns after the first `text_columns` are aligned at the right."""
    rule = ["---"] * text_columns + ["---:"] * (len(head) - text_columns)
    return ["| " + " | ".join(row) + " |" for row in (head, rule, *rows)]


def _read(page):
    try:
        return page.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        raise results.BadResults(f"{page}: not a text file in UTF-8") from None
    except OSError as error:
        raise results.BadResults(f"{page}: cannot be read ({error.strerror})") from None


if __name__ == "__main__":
    command.run(main)
