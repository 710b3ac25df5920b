"""Records and files for the tests of plots/, and the programs run on them."""

import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "plots" / "data" / "sample"

sys.path.insert(0, str(ROOT / "plots"))


def gemm(lesson=3, name="tma", shape=(4096, 4096, 4096), ms=0.4, library_ms=0.2, **changes):
    """A record as docs/result-files.md has it; `changes` replace its top-level fields."""
    record = json.loads((SAMPLE / "lesson03.json").read_text())
    m, n, k = shape
    record.update(lesson=lesson, name=name)
    record["problem"].update(m=m, n=n, k=k, lda=k, ldb=k, ldc=n, ldd=n)
    for contender, time in zip(record["contenders"], (ms, library_ms)):
        contender.update(ms=time, ms_lower_quartile=time, ms_upper_quartile=time, ms_min=time)
        contender["tflops"] = 2 * m * n * k / time * 1e-9
    record["ratio"]["standard"] = library_ms / ms
    record.update(changes)
    return record


def grouped(groups="uniform", flop=1e9, ms=0.01, library_ms=0.02, loop_ms=0.03, **knobs):
    """A record of lesson 12: `flop` in all, the library's one call, and its loop."""
    record = json.loads((SAMPLE / "lesson12.json").read_text())
    record["knobs"].update(groups=groups, **knobs)
    record["problem"].update(flop=flop)
    for contender, time in zip(record["contenders"], (ms, library_ms, loop_ms)):
        contender.update(ms=time, ms_lower_quartile=time, ms_upper_quartile=time, ms_min=time)
        contender["tflops"] = flop / time * 1e-9
    record["ratio"]["standard"] = library_ms / ms
    return record


def roofline(**changes):
    return {**json.loads((SAMPLE / "lesson00.json").read_text()), **changes}


def trace(tracks=None, lesson=3, name="tma", **changes):
    """A trace file of a GPU as docs/result-files.md has it. `tracks` holds the spans of each
    (CTA, SM, track name), as (name, begin, end) in microseconds; a span's step is its rank.
    `changes` replace fields of otherData."""
    if tracks is None:
        tracks = {(0, 0, "thread 0"): [("wait full", 0, 1), ("multiply", 1, 1.5)]}
    events, roles = [], {}
    for (cta, sm, role), spans in tracks.items():
        place = {"pid": cta + 1, "tid": roles.setdefault(role, len(roles)) + 1}
        arguments = {"name": f"CTA {cta} on SM {sm}", "cta": cta, "sm": sm}
        events += [
            {"name": "process_name", "ph": "M", "pid": cta + 1, "args": arguments},
            {"name": "thread_name", "ph": "M", **place, "args": {"name": role}},
        ]
        events += [
            {"name": span, "ph": "X", **place, "ts": begin, "dur": end - begin,
             "args": {"step": step}}
            for step, (span, begin, end) in enumerate(spans)
        ]  # fmt: skip
    content = json.loads((SAMPLE / "trace_lesson03.json").read_text())
    content["traceEvents"] = events
    record = gemm(lesson, name)
    measured = {"time_unit": "GPU nanoseconds", "sm_clock_mhz": 1755, "record": record}
    content["otherData"].update(measured, **changes)
    return content


def changed(record, path, value):
    """A copy of `record` in which the field at `path` ("contenders.0.ms") holds `value`."""
    record = copy.deepcopy(record)
    *parents, last = [int(key) if key.isdigit() else key for key in path.split(".")]
    inner = record
    for key in parents:
        inner = inner[key]
    inner[last] = value
    return record


def without(record, path):
    """A copy of `record` that lacks the field at `path`."""
    record = copy.deepcopy(record)
    *parents, last = path.split(".")
    inner = record
    for key in parents:
        inner = inner[key]
    del inner[last]
    return record


def text(*records):
    """The text of a .jsonl file."""
    return "".join(json.dumps(record) + "\n" for record in records)


class ProgramTest(unittest.TestCase):
    """A test with a folder of its own that runs the programs of plots/."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, content, name="results.jsonl"):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def run_program(self, program, *arguments, environment=None):
        return subprocess.run(
            [sys.executable, ROOT / "plots" / program, *arguments],
            env={**os.environ, "PYTHONIOENCODING": "utf-8", **(environment or {})},
            capture_output=True,
            encoding="utf-8",
            timeout=120,
        )

    def assert_refused(self, done, phrase):
        """Exit status 2, nothing on stdout, and one line on stderr that holds `phrase`."""
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn(phrase, done.stderr)
