"""Reads and checks trace files (--trace): what each role of a kernel did, and when.

docs/result-files.md describes the format. A file that can't be trusted is an error (BadResults).
"""

from __future__ import annotations

import collections
import dataclasses
import datetime

import record_files
import results
from record_files import BadResults, Fields, NoMeasurement

SCHEMA = 1
MODEL_TIME = "model time"
_TIME_UNITS = ("GPU nanoseconds", MODEL_TIME)

# As gemm::span_name() has them, in the order of a legend.
SPANS = (
    "load", "multiply", "epilogue", "store", "schedule", "wait empty", "wait full", "wait turn",
)  # fmt: skip

# Microseconds by which a span may reach into the next one: both are rounded when written.
_ROUNDING = 0.001


@dataclasses.dataclass(frozen=True)
class Span:
    """Microseconds; `step` is a k-tile, or a tile for what is done once a tile."""

    name: str
    begin: float
    end: float
    step: int


@dataclasses.dataclass(frozen=True)
class Track:
    """What one role of one CTA did, in the order of time."""

    name: str
    cta: int
    sm: int
    spans: tuple

    def within(self, begin, end):
        return [span for span in self.spans if span.begin < end and span.end > begin]


@dataclasses.dataclass(frozen=True)
class Trace:
    """One traced launch of a lesson that passed verification. Tracks come by CTA and role."""

    lesson: int
    name: str
    knobs: tuple
    shape: tuple
    tracks: tuple
    is_model_time: bool  # of the emulator: an order of events, and no measurement
    clock_mhz: float | None
    lost: int  # tracks and spans that the harness had no room for
    machine: results.Machine
    date: datetime.datetime

    def on_sm(self, sm):
        return [track for track in self.tracks if track.sm == sm]

    def of_cta(self, cta):
        return [track for track in self.tracks if track.cta == cta]


def read(path):
    """The Trace in a file. Throws BadResults."""
    if path.suffix != ".json":
        raise BadResults(f"{path}: the name of a trace file ends in .json")
    (fields,) = record_files.read(path)
    if not fields.has("traceEvents"):
        raise BadResults(f"{path}: there are no traceEvents; --trace writes such a file")
    try:
        return _trace(fields)
    except NoMeasurement as error:
        raise BadResults(f"{path}: {error.detail or f'a trace {error.reason}'}") from None


def _trace(fields):
    other = fields.child("otherData")
    schema = other.integer("schema")
    if schema != SCHEMA:
        raise BadResults(
            f"{fields.where}: schema {schema} of a trace is not known, only schema {SCHEMA}"
        )
    unit = other.text("time_unit")
    if unit not in _TIME_UNITS:
        raise BadResults(f'{fields.where}: time_unit "{unit}" is not known')
    record = other.child("record")
    if record.child("verdict").text("status") != "pass":
        raise BadResults(f"{fields.where}: the traced run did not pass verification")
    problem = record.child("problem")
    machine = record.child("machine")
    return Trace(
        lesson=record.integer("lesson"),
        name=record.text("name"),
        knobs=record.strings("knobs"),
        shape=tuple(problem.integer(key) for key in "mnk"),
        tracks=_tracks(fields),
        is_model_time=unit == MODEL_TIME,
        clock_mhz=other.optional_number("sm_clock_mhz"),
        lost=other.integer("lost_tracks") + other.integer("lost_spans"),
        machine=results.Machine(
            gpu=machine.text("gpu"),
            driver=machine.optional_text("driver"),
            cublas=None,  # it had no part in this
            commit=machine.optional_text("commit"),
        ),
        date=record.date("date"),
    )


def _tracks(fields):
    places, names = {}, {}
    spans = collections.defaultdict(list)
    for event in fields.children("traceEvents"):
        phase, name = event.text("ph"), event.text("name")
        process = event.integer("pid")
        if phase == "X":
            spans[process, event.integer("tid")].append(_span(event, name))
        elif phase == "M" and name == "process_name":
            arguments = event.child("args")
            places[process] = (arguments.integer("cta"), arguments.integer("sm"))
        elif phase == "M" and name == "thread_name":
            names[process, event.integer("tid")] = event.child("args").text("name")
        else:
            raise BadResults(f'{fields.where}: the event "{name}" of phase "{phase}" is not known')
    if not spans:
        raise BadResults(f"{fields.where}: the trace has no span")
    tracks = []
    for key in sorted(spans):
        process, thread = key
        if process not in places or key not in names:
            raise BadResults(
                f"{fields.where}: process {process}, thread {thread} has spans and no name"
            )
        own = sorted(spans[key], key=lambda span: span.begin)
        for before, after in zip(own, own[1:]):
            if after.begin < before.end - _ROUNDING:
                raise BadResults(
                    f"{fields.where}: spans of CTA {places[process][0]}, {names[key]}, overlap: "
                    f'"{before.name}" {before.step} and "{after.name}" {after.step}'
                )
        tracks.append(Track(names[key], *places[process], tuple(own)))
    return tuple(tracks)


def _span(event: Fields, name):
    if name not in SPANS:
        raise BadResults(f'{event.where}: a span "{name}" is not known')
    begin, duration = event.number("ts"), event.number("dur")
    if begin < 0 or duration < 0:
        raise BadResults(f"{event.where}: a span {name} at {begin:g} lasts {duration:g} µs")
    return Span(name, begin, begin + duration, event.child("args").integer("step"))
