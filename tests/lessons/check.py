"""Holds the lessons to the sweep and to the table of broken variants, on the emulator.

    tests/lessons/check.py [--whole] [--lessons lesson04 ...] [--jobs N]

A sample: some of the sweep, each case under one schedule, and the broken variants under three.
--whole: all of the sweep and of the table under 1 fair, 1 adversarial and 20 random schedules.
Prints the counts of each lesson. Exit status: 1 if a right kernel was wrong or drew a finding, or a
broken one was not caught as its row says.
"""

import argparse
import concurrent.futures
import os
import sys
from typing import NamedTuple

import broken
import emulated
import sweep


class Counts(NamedTuple):
    runs: int
    wrong: int  # runs whose D was wrong
    hazards: int  # runs with a finding
    failed: int  # runs without a verdict


def counts_of(outcomes):
    return Counts(
        len(outcomes),
        sum(outcome.wrong > 0 for outcome in outcomes),
        sum(outcome.hazards > 0 for outcome in outcomes),
        sum(bool(outcome.trouble) for outcome in outcomes),
    )


def sample_of_sweep(lesson):
    """(case, schedule): the cases of the sample, each under another schedule than the last."""
    cases = [case for case in sweep.cases() if case.lesson == lesson and case.in_sample]
    return [
        (case, emulated.WHOLE[number % len(emulated.WHOLE)]) for number, case in enumerate(cases)
    ]


def whole_sweep(lesson):
    cases = [case for case in sweep.cases() if case.lesson == lesson]
    return [(case, schedule) for case in cases for schedule in emulated.WHOLE]


def run_sweep(pool, pairs):
    """The outcomes of (case, schedule) pairs."""
    return list(
        pool.map(lambda pair: emulated.run(pair[0].lesson, pair[0].flags, pair[1]), pairs)
    )


def run_broken(pool, rows, schedules):
    """The outcomes of each row, as {row: outcomes}."""
    pending = {
        row: [
            pool.submit(emulated.run, row.lesson, row.command_line, schedule)
            for schedule in schedules
        ]
        for row in rows
    }
    return {row: [run.result() for run in runs] for row, runs in pending.items()}


def workers(jobs=None):
    return concurrent.futures.ThreadPoolExecutor(jobs or os.cpu_count())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--whole", action="store_true", help="everything, under 22 schedules")
    parser.add_argument(
        "--lessons", nargs="+", choices=emulated.GEMM_LESSONS, default=emulated.GEMM_LESSONS
    )
    parser.add_argument("--jobs", type=int)
    arguments = parser.parse_args()

    bad = False
    with workers(arguments.jobs) as pool:
        for lesson in arguments.lessons:
            pairs = whole_sweep(lesson) if arguments.whole else sample_of_sweep(lesson)
            outcomes = run_sweep(pool, pairs)
            for outcome in outcomes:
                if not outcome.is_right:
                    bad = True
                    print(f"{outcome.command}\n{outcome.trouble}\n{outcome.output}")
            runs, wrong, hazards, failed = counts_of(outcomes)
            cases = len({case for case, _ in pairs})
            print(
                f"{lesson}: {cases} cases, {runs} runs: {wrong} wrong, {hazards} with hazards, "
                f"{failed} failed",
                flush=True,
            )

            rows = [row for row in broken.table() if row.lesson == lesson]
            schedules = emulated.WHOLE if arguments.whole else emulated.SAMPLE
            for row, outcomes in run_broken(pool, rows, schedules).items():
                complaints = broken.complaints(row, outcomes)
                bad = bad or bool(complaints)
                runs, wrong, hazards, _ = counts_of(outcomes)
                spoke = sum(broken.rule_spoke(row, outcome) for outcome in outcomes)
                print(
                    f"  --break {row.variant}: {runs} runs: {wrong} wrong, {hazards} with hazards; "
                    f"{row.rule} in {spoke}",
                    *complaints,
                    sep="\n",
                    flush=True,
                )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
