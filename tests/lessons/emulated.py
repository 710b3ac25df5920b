"""Runs a lesson on the emulator as a user does, and reads what it says."""

import json
import re
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
LESSONS = sorted(path.name.split("_")[0] for path in (ROOT / "lessons").glob("lesson*_*.cu"))
GEMM_LESSONS = [lesson for lesson in LESSONS if lesson != "lesson00"]
TIME_LIMIT_S = 300


class Schedule(NamedTuple):
    """An order of events; the seed is also that of the inputs."""

    name: str
    seed: int

    @property
    def flags(self):
        return ["--schedule", self.name, "--seed", str(self.seed)]

    def __str__(self):
        return f"{self.name} {self.seed}"


def schedules(random_seeds):
    """The fair schedule, the adversarial one, and so many random ones."""
    return [Schedule("fair", 1), Schedule("adversarial", 2)] + [
        Schedule("random", 3 + i) for i in range(random_seeds)
    ]


SAMPLE = schedules(random_seeds=1)
WHOLE = schedules(random_seeds=20)


class Finding(NamedTuple):
    """What the checker found: "phase-aba", "lesson04_ring_buffer.cu:101", and its sentence."""

    rule: str
    place: str
    sentence: str


class Outcome(NamedTuple):
    """How a run ended. `trouble` is what kept it from a verdict, empty where there is one."""

    command: str
    status: int
    wrong: int  # elements of D, its padding and its guard bands
    hazards: int
    findings: tuple
    output: str
    trouble: str

    @property
    def is_right(self):
        return not self.trouble and self.status == 0 and self.wrong == 0 and self.hazards == 0


def read_findings(output):
    """The findings in what a lesson printed."""
    return tuple(
        Finding(rule, place, " ".join(sentence.split()))
        for rule, place, sentence in re.findall(
            r"^ {9}E\d\d (\S+) at ([^\s,]+)[^\n]*\n((?: {11}.*\n)*)", output, re.M
        )
    )


def run(lesson, flags, schedule):
    """Verifies a lesson on the emulator, without timing."""
    with tempfile.TemporaryDirectory() as folder:
        record_path = Path(folder) / "record.json"
        command = [f"./{lesson}", "--device", "emulator", "--check-only"]
        command += [*map(str, flags), *schedule.flags]
        text = shlex.join(command)
        try:
            done = subprocess.run(
                [*command, "--json", record_path],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                timeout=TIME_LIMIT_S,
            )
        except subprocess.TimeoutExpired:
            return Outcome(text, -1, 0, 0, (), "", f"did not end within {TIME_LIMIT_S} s")
        output = done.stdout + done.stderr
        if done.returncode not in (0, 1) or not record_path.exists():
            trouble = f"ended with status {done.returncode}, without a verdict"
            return Outcome(text, done.returncode, 0, 0, (), output, trouble)
        verdict = json.loads(record_path.read_text())["verdict"]
    if verdict["hazards"] is None:
        return Outcome(text, done.returncode, 0, 0, (), output, "nobody looked for hazards")
    passed = verdict["status"] == "pass"
    wrong = verdict["wrong"] + verdict["damaged_padding"] + verdict["damaged_guard_bytes"]
    return Outcome(
        text,
        done.returncode,
        wrong,
        verdict["hazards"],
        read_findings(done.stdout),
        output,
        "" if passed == (done.returncode == 0) else "exit status and record differ",
    )
