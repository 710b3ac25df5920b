"""Reads and checks result files: what may go into a picture or a table, and what may not.

docs/result-files.md describes the format. A `.json` file holds one record, a `.jsonl` file one
record a line, a directory any number of both.

A file that can't be trusted is an error (BadResults). A record that is whole but is no measurement
(a wrong result, an unchecked one, a figure that is null or NaN) is left out, and counted.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import math
import pathlib
import re
import statistics

import record_files
from record_files import BadResults, NoMeasurement

SCHEMA = 1
REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
MEASUREMENTS = REPOSITORY / "plots" / "data" / "nvidia-h200"

# How far a figure may lie from the one it is derived from: both are rounded when written.
_ROUNDING = 0.01


@dataclasses.dataclass(frozen=True)
class Machine:
    gpu: str
    driver: str | None
    cublas: str | None
    commit: str | None


@dataclasses.dataclass(frozen=True)
class Problem:
    """D = alpha * A * B^T + beta * C, all row-major; A is m x k, B n x k; pitches in elements."""

    m: int
    n: int
    k: int
    alpha: float
    beta: float
    lda: int
    ldb: int
    ldc: int
    ldd: int
    init: str
    # "fused": with an epilogue that the knobs say; "fp8": 8-bit inputs; "softmax": of the product's
    # rows, or what the knobs say.
    kind: str = "gemm"

    @property
    def shape(self):
        return (self.m, self.n, self.k)

    @property
    def flops(self):
        """Those of the product; there is none when alpha = 0."""
        return 2 * self.m * self.n * self.k if self.alpha != 0 else 0

    @property
    def intensity(self):
        """FLOP per compulsory byte: each bf16 input read once, D written once."""
        m, n, k = self.shape
        inputs = m * k + n * k + (m * n if self.beta != 0 else 0)
        return self.flops / (2 * (inputs + m * n))

    @property
    def is_plain(self):
        """Whether it is D = A * B^T in bf16, with work to do and no pitch of the user's."""
        is_product = self.kind == "gemm" and self.alpha == 1 and self.beta == 0
        return is_product and self.flops > 0 and not self.odd_pitches

    @property
    def odd_pitches(self):
        """The pitches that are not the row rounded up to 16 bytes, as {"lda": 4104}."""
        rows = {"lda": self.k, "ldb": self.k, "ldc": self.n, "ldd": self.n}
        return {
            name: getattr(self, name)
            for name, row in rows.items()
            if getattr(self, name) != (row + 7) // 8 * 8
        }


@dataclasses.dataclass(frozen=True)
class GroupedProblem:
    """Many products of one launch, each D = alpha * A * B^T + beta * C with a shape of its own."""

    groups: int
    m: int  # the sum over the groups
    n: int  # the largest, as k
    k: int
    flops: float  # of all products
    alpha: float
    beta: float
    init: str

    odd_pitches = {}  # the harness chooses them


@dataclasses.dataclass(frozen=True)
class Contender:
    """One contender's times in milliseconds; clock (MHz) and power (W) of sustained runs."""

    name: str
    ms: float
    lower_quartile_ms: float
    upper_quartile_ms: float
    tflops: float
    late: int
    clock_mhz: float | None
    power_w: float | None


@dataclasses.dataclass(frozen=True)
class Run:
    """A lesson that passed verification and was timed beside the library."""

    lesson: int
    name: str
    knobs: tuple
    problem: Problem
    protocol: str
    protocol_text: str
    timed: Contender
    library: Contender
    share: float  # library's time over the lesson's: above 1 the lesson is faster
    share_of_best: float | None  # the same against the fastest of the library's algorithms
    machine: Machine
    date: datetime.datetime

    @property
    def identity(self):
        """What two runs share when one repeats the other."""
        return (self.lesson, self.knobs, self.problem, self.protocol, self.machine.gpu)


@dataclasses.dataclass(frozen=True)
class GroupedRun(Run):
    """A run of many products; the library's is its one call for all of them."""

    loop: Contender  # a call of the library for each product

    @property
    def share_of_loop(self):
        return self.loop.ms / self.timed.ms


@dataclasses.dataclass(frozen=True)
class Ceiling:
    """`value` is bytes or FLOP a second; clock (MHz) and power (W) while it was measured."""

    value: float
    clock_mhz: float | None
    power_w: float | None


@dataclasses.dataclass(frozen=True)
class Roofline:
    """The ceilings of lesson 00. wgmma on zeros draws less power than any GEMM of numbers does."""

    copy: Ceiling
    wgmma: Ceiling
    wgmma_on_zeros: Ceiling
    ridge: float  # FLOP per byte
    machine: Machine
    date: datetime.datetime

    @property
    def identity(self):
        return self.machine.gpu


class Results:
    """The measurements of some files. `runs`, `grouped` (GroupedRun) and `rooflines` hold the newest
    of each identity."""

    def __init__(self):
        self.runs = []
        self.grouped = []
        self.rooflines = []
        self._records = 0
        self._left_out = collections.Counter()
        self._first_detail = {}

    def keep_runs(self, wanted, reason):
        """Leaves out the runs that `wanted` refuses; `reason` completes "2 records ..."."""
        kept = [run for run in self.runs if wanted(run)]
        self._left_out[reason] += len(self.runs) - len(kept)
        self.runs = kept

    def nothing(self, wanted, where=""):
        """The BadResults for the lack of a `wanted`, with the reasons why records were left out."""
        reasons = self.left_out()
        return BadResults(
            (f"{where}: " if where else "")
            + f"there is no {wanted}"
            + (f" ({reasons})" if reasons else "")
        )

    def left_out(self):
        """One line that counts the records left out by reason; None when all are in."""
        if not +self._left_out:
            return None
        reasons = [
            f"{count} {reason}" + self._first_detail.get(reason, "")
            for reason, count in (+self._left_out).items()
        ]
        total = sum(self._left_out.values())
        return f"{total} of {self._records} records left out: {', '.join(reasons)}"

    def _add(self, parse, fields):
        self._records += 1
        try:
            measurement = parse(fields)
        except NoMeasurement as error:
            self._left_out[error.reason] += 1
            if error.detail:
                self._first_detail.setdefault(error.reason, f" ({error.detail})")
            return
        places = {Run: self.runs, GroupedRun: self.grouped, Roofline: self.rooflines}
        places[type(measurement)].append(measurement)

    def _keep_newest(self):
        for measurements in (self.runs, self.grouped, self.rooflines):
            newest = {}
            for measurement in measurements:
                known = newest.get(measurement.identity)
                if known is None or known.date <= measurement.date:
                    newest[measurement.identity] = measurement
            self._left_out["superseded by a newer record"] += len(measurements) - len(newest)
            measurements[:] = newest.values()


def load(paths):
    """The Results in `paths` (files and directories). Throws BadResults."""
    results = Results()
    for path in record_files.files_in(paths):
        for fields in record_files.read(path):
            if fields.has("traceEvents"):
                raise BadResults(f"{fields.where}: a timeline (--trace); plots/timeline.py draws it")
            schema = fields.integer("schema")
            if schema != SCHEMA:
                raise BadResults(
                    f"{fields.where}: schema {schema} is not known, only schema {SCHEMA}; "
                    "measure again, or read it with the version that wrote it"
                )
            kind = fields.text("kind")
            if kind not in _PARSERS:
                raise BadResults(f'{fields.where}: kind "{kind}" is not known')
            results._add(_PARSERS[kind], fields)
    results._keep_newest()
    return results


def require_one_gpu(measurements):
    """Throws BadResults when `measurements` (runs, rooflines) come from different GPUs."""
    gpus = sorted({measurement.machine.gpu for measurement in measurements})
    if len(gpus) > 1:
        raise BadResults(
            f"the results come from different GPUs ({', '.join(gpus)}); show each alone"
        )


def shape_label(shape):
    """The shape as M×N×K, "8192×1024×8192", or "4096³"."""
    m, n, k = shape
    return f"{m}³" if m == n == k else f"{m}×{n}×{k}"


def work(shape):
    """A sorting key: by FLOPs, then by size."""
    m, n, k = shape
    return (m * n * k, shape)


def three_digits(value):
    """The digits that a measurement carries: 712, 34.2, 8.61, 0.042."""
    if value == 0:
        return "0"
    decimals = 2 - math.floor(math.log10(value)) if value >= 0.1 else 3
    text = f"{value:.{max(decimals, 0)}f}"
    return text if float(text) > 0 else "< 0.001"


def percent(share):
    """The share as "0.8 %", "44 %", "101 %"."""
    return f"{100 * share:.1f} %" if share < 0.0995 else f"{100 * share:.0f} %"


def provenance(measurements):
    """Machine, versions, commits and dates of `measurements`, as a phrase for a caption."""
    machines = [measurement.machine for measurement in measurements]
    dates = sorted({measurement.date.date().isoformat() for measurement in measurements})
    parts = [
        _enumerate("", (machine.gpu for machine in machines)),
        _enumerate("CUDA driver ", (machine.driver for machine in machines)),
        _enumerate("cuBLAS ", (machine.cublas for machine in machines)),
        _enumerate("commit ", (_short(machine.commit or "unknown") for machine in machines)),
        dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}",
    ]
    return ", ".join(part for part in parts if part)


def conditions(runs):
    """How `runs` were timed, and on which inputs, as a phrase for a caption."""
    protocols = _enumerate("", (run.protocol_text for run in runs))
    return f"{protocols}; {_enumerate('', (run.problem.init for run in runs))} inputs"


def lesson_names(runs):
    """The lessons in their order, with the name that each last had: {3: "tma"}."""
    names = {run.lesson: run.name for run in sorted(runs, key=lambda run: run.date)}
    return dict(sorted(names.items()))


def fastest(runs):
    """Of each (lesson, shape), the run with the largest share: {(lesson, shape): run}."""
    best = {}
    for run in runs:
        key = (run.lesson, run.problem.shape)
        if key not in best or best[key].share < run.share:
            best[key] = run
    return best


def library_tflops(runs):
    """The library's TFLOP/s at each shape, the median over `runs`: {shape: tflops}."""
    figures = collections.defaultdict(list)
    for run in runs:
        figures[run.problem.shape].append(run.library.tflops)
    return {shape: statistics.median(values) for shape, values in figures.items()}


def _enumerate(name, values):
    """The distinct values after their name, "cuBLAS 13.0 and 13.1.0"; empty without a value."""
    distinct = sorted({value for value in values if value})
    return name + " and ".join(distinct) if distinct else ""


def _short(commit):
    return re.sub(r"^([0-9a-f]{9})[0-9a-f]*", r"\1", commit)


def _machine(fields):
    return Machine(
        gpu=fields.text("gpu"),
        driver=fields.text("driver"),
        cublas=fields.optional_text("cublas"),
        commit=fields.optional_text("commit"),
    )


def _problem(fields, kind):
    sizes = ("m", "n", "k", "lda", "ldb", "ldc", "ldd")
    return Problem(
        **{key: fields.integer(key) for key in sizes},
        alpha=fields.number("alpha"),
        beta=fields.number("beta"),
        init=fields.text("init"),
        kind=kind,
    )


def _grouped_problem(fields):
    return GroupedProblem(
        **{key: fields.integer(key) for key in ("groups", "m", "n", "k")},
        flops=fields.number("flop"),
        alpha=fields.number("alpha"),
        beta=fields.number("beta"),
        init=fields.text("init"),
    )


def _contender(fields, problem):
    contender = Contender(
        name=fields.text("name"),
        ms=fields.positive("ms"),
        lower_quartile_ms=fields.positive("ms_lower_quartile"),
        upper_quartile_ms=fields.positive("ms_upper_quartile"),
        tflops=fields.number("tflops"),
        late=fields.integer("late"),
        clock_mhz=fields.optional_number("sm_clock_mhz"),
        power_w=fields.optional_number("power_w"),
    )
    derived = problem.flops / contender.ms * 1e-9
    if not math.isclose(contender.tflops, derived, rel_tol=_ROUNDING):
        raise BadResults(
            f"{fields.where}: {contender.name} has {contender.tflops:g} TFLOP/s, "
            f"but its {contender.ms:g} ms make {derived:.4g}"
        )
    return contender


def _run(fields):
    kind = fields.text("kind")
    return Run(**_measured(fields, lambda problem: _problem(problem, kind)))


def _grouped_run(fields):
    measured = _measured(fields, _grouped_problem)
    for entry in fields.children("contenders"):
        if entry.text("role") == "candidate":
            return GroupedRun(**measured, loop=_contender(entry, measured["problem"]))
    raise BadResults(f'{fields.where}: no contender has the role "candidate"')


def _measured(fields, read_problem):
    """The fields of a Run, by name; `read_problem` makes its problem."""
    verdict = fields.child("verdict")
    status = verdict.text("status")
    if not fields.is_null("break"):
        raise NoMeasurement("of a variant that is broken on purpose")
    if fields.has("ptx"):
        raise NoMeasurement("of edited PTX (--ptx)")
    if status == "fail" or not verdict.is_null("soak_first_difference"):
        raise NoMeasurement("failed verification")
    if status == "unchecked":
        raise NoMeasurement("unchecked (measured with --bench)")
    if status != "pass":
        raise BadResults(f'{fields.where}: verdict.status "{status}" is not known')
    if fields.is_null("protocol"):
        raise NoMeasurement("not timed")
    problem = read_problem(fields.child("problem"))
    contenders = {entry.text("role"): entry for entry in reversed(fields.children("contenders"))}
    for role in ("lesson", "standard"):
        if role not in contenders:
            raise BadResults(f'{fields.where}: no contender has the role "{role}"')
    ratio = fields.child("ratio")
    return {
        "lesson": fields.integer("lesson"),
        "name": fields.text("name"),
        "knobs": fields.strings("knobs"),
        "problem": problem,
        "protocol": fields.child("protocol").text("name"),
        "protocol_text": fields.child("protocol").text("text"),
        "timed": _contender(contenders["lesson"], problem),
        "library": _contender(contenders["standard"], problem),
        "share": ratio.positive("standard"),
        "share_of_best": ratio.optional_number("best"),
        "machine": _machine(fields.child("machine")),
        "date": fields.date("date"),
    }


def _ceiling(fields, name, unit, init=None):
    for entry in fields.children("ceilings"):
        if entry.text("name") != name or entry.text("unit") != unit:
            continue
        if init in (None, entry.optional_text("init")):
            return Ceiling(
                value=entry.positive("value"),
                clock_mhz=entry.optional_number("sm_clock_mhz"),
                power_w=entry.optional_number("power_w"),
            )
    on = f" on {init}" if init else ""
    raise BadResults(f"{fields.where}: the ceiling {name}{on}, in {unit}, is missing")


def _roofline(fields):
    copy = _ceiling(fields, "copy", "B/s")
    wgmma = _ceiling(fields, "wgmma", "FLOP/s", "normal")
    wgmma_on_zeros = _ceiling(fields, "wgmma", "FLOP/s", "zeros")
    ridge = fields.positive("ridge_flop_per_byte")
    if not math.isclose(ridge, wgmma.value / copy.value, rel_tol=_ROUNDING):
        raise BadResults(
            f"{fields.where}: ridge_flop_per_byte is {ridge:g}, "
            f"but the ceilings make {wgmma.value / copy.value:.4g}"
        )
    return Roofline(
        copy=copy,
        wgmma=wgmma,
        wgmma_on_zeros=wgmma_on_zeros,
        ridge=ridge,
        machine=_machine(fields.child("machine")),
        date=fields.date("date"),
    )


_PARSERS = {
    "gemm": _run,
    "fused": _run,
    "fp8": _run,
    "softmax": _run,
    "grouped": _grouped_run,
    "roofline": _roofline,
}
