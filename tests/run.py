"""Runs the test suites and ends with one line: `N passed, N failed`.

    tests/run.py [SUITE ...]

A suite is `unit` (the Catch2 program build/unit_tests) or a folder of unittest files under tests/.
What a suite printed is shown if one of its tests failed. A suite that crashes, takes too long or
runs no test counts as one more failure. Exit status: 1 if anything failed.
"""

import re
import subprocess
import sys
import time
import unittest
from pathlib import Path
from typing import NamedTuple

SUITES = ["unit", "lessons", "mutants", "cli", "plots", "contract", "build"]
TIME_LIMIT_S = 1200
ROOT = Path(__file__).resolve().parent.parent


class Counts(NamedTuple):
    """Test cases by outcome."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other):
        return Counts(*(a + b for a, b in zip(self, other)))

    def __str__(self):
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.passed} passed, {self.failed} failed{skipped}"


def catch2_counts(output):
    """Reads the totals that Catch2's console reporter prints last; v2 and v3 word them alike."""
    if all_passed := re.search(r"^All tests passed \(.* in (\d+) test cases?\)", output, re.M):
        return Counts(passed=int(all_passed[1]))
    totals = re.search(r"^test cases:(.*)", output, re.M)
    words = re.findall(
        r"(\d+) (passed|failed as expected|failed|skipped)", totals[1] if totals else ""
    )
    number = {word: int(count) for count, word in words}
    return Counts(
        passed=number.get("passed", 0) + number.get("failed as expected", 0),
        failed=number.get("failed", 0),
        skipped=number.get("skipped", 0),
    )


def unittest_counts(output):
    """Reads the line that run_unittest_folder() prints last."""
    numbers = re.findall(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$", output, re.M)
    return Counts(*(int(number or 0) for number in numbers[-1])) if numbers else Counts()


def run_unittest_folder(folder):
    """Runs the unittest files of a folder in this process; the last line printed is the counts."""
    suite = unittest.defaultTestLoader.discover(folder, pattern="*test*.py")
    result = unittest.TextTestRunner(stream=sys.stdout, buffer=True).run(suite)

    def ids(tests):
        # A subtest stands for its test: three failed subtests are one failed test.
        return {getattr(test, "test_case", test).id() for test in tests if test.countTestCases()}

    broken = [test for test, _ in result.failures + result.errors] + result.unexpectedSuccesses
    failed = ids(broken)
    skipped = ids(test for test, _ in result.skipped) - failed
    # A setUpClass() that failed is no test, and the tests it was for did not run.
    fixtures = [test for test in broken if not test.countTestCases()]
    print(
        Counts(
            result.testsRun - len(failed) - len(skipped), len(failed) + len(fixtures), len(skipped)
        )
    )


def run_suite(suite):
    """Runs one suite in a process of its own, prints a line about it, and returns its counts."""
    if suite == "unit":
        command, read_counts = [ROOT / "build/unit_tests"], catch2_counts
    else:
        command = [sys.executable, __file__, "--folder", ROOT / "tests" / suite]
        read_counts = unittest_counts

    start = time.monotonic()
    trouble = ""
    try:
        process = subprocess.run(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=TIME_LIMIT_S,
        )
        output = process.stdout
        counts = read_counts(output)
        if process.returncode < 0:
            trouble = f"ended by signal {-process.returncode}"
        elif process.returncode != 0 and counts.failed == 0:
            trouble = f"ended with status {process.returncode}"
        elif not any(counts):
            trouble = "ran no test"
    except OSError as error:
        output, counts, trouble = "", Counts(), f"could not be started: {error}"
    except subprocess.TimeoutExpired as expired:
        output = (expired.stdout or b"").decode(errors="replace")
        counts, trouble = Counts(), f"did not end within {TIME_LIMIT_S} s"

    if trouble:
        counts += Counts(failed=1)
        trouble = f"; the suite {trouble}"
    if counts.failed:
        print(output.rstrip())
    print(f"{suite:<10} {counts} in {time.monotonic() - start:.1f} s{trouble}", flush=True)
    return counts


def main(suites):
    total = Counts()
    for suite in suites:
        total += run_suite(suite)
    print(total)
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--folder"]:
        run_unittest_folder(sys.argv[2])
    else:
        sys.exit(main(sys.argv[1:] or SUITES))
