"""Runs kernels with other PTX than their own, and says what the checker made of it."""

import functools
import os
import pathlib
import re
import subprocess
import tempfile
from typing import NamedTuple

import kernels
import ptx

# As tests/emulator/schedules.h has them.
SCHEDULES = (("fair", 1), ("adversarial", 2), ("random", 3), ("random", 4))
_TIME_LIMIT_S = 120
_TRAP = "E38"
_FINDING = re.compile(r"^ *(E\d\d) [\w-]+ at ", re.M)
_MISSING = re.compile(r"The PTX has no entry (\w+)\.")


class Run(NamedTuple):
    """One size under one schedule."""

    right: bool  # it ended with the right result
    rules: frozenset  # ids of the rules that spoke


class Trial(NamedTuple):
    """A mutant under all schedules, and under the strict rules where the others kept silent. Where
    a rule speaks, the runs are those of one size."""

    runs: tuple
    strict_runs: tuple = ()
    is_reached: bool = True  # some thread came to the instruction

    @property
    def rules(self):
        return frozenset().union(*(run.rules for run in self.runs + self.strict_runs))

    @property
    def is_caught(self):
        return bool(self.rules)

    @property
    def is_strict(self):
        """Only strict rules spoke."""
        return self.is_caught and not any(run.rules for run in self.runs)

    @property
    def depends_on_schedule(self):
        runs = self.strict_runs if self.is_strict else self.runs
        return self.is_caught and not all(run.rules for run in runs)

    @property
    def is_right(self):
        return all(run.right for run in self.runs)


class BrokenKernel(Exception):
    """A kernel that can't be run, or is wrong without any mutation; the message names it."""


class Bench:
    """One kernel, with the PTX of the entries that it runs and of no other."""

    def __init__(self, kernel):
        self.kernel = kernel
        module = ptx.Module((kernels.ROOT / kernel.ptx).read_text(encoding="utf-8"))
        self.text = self._entries_that_run(module)

    def check(self):
        """Raises BrokenKernel if the kernel is wrong without any mutation."""
        own = self._run_all(self.text)
        if not all(run.right and not run.rules for run in own):
            raise BrokenKernel(f"{self.kernel.name} is wrong or has hazards as it is: {own}")

    @functools.cached_property
    def _is_strictly_right(self):
        """Where the kernel breaks a strict rule itself, these can't tell a mutant from it."""
        return not any(run.rules for run in self._run_all(self.text, "--strict"))

    def try_out(self, mutant):
        """The Trial of a mutant."""
        runs = self._run_until_caught(mutant.text)
        if any(run.rules for run in runs):
            return Trial(runs)
        is_told_apart = self._is_strictly_right
        strict_runs = self._run_until_caught(mutant.text, "--strict") if is_told_apart else ()
        if any(run.rules for run in strict_runs):
            return Trial(runs, strict_runs)
        probes = self._run_until_caught(mutant.probe)
        return Trial(runs, strict_runs, any(_TRAP in run.rules for run in probes))

    def _entries_that_run(self, module):
        """The program refuses PTX without an entry that it launches: it is asked until it runs."""
        names = []
        while True:
            text = module.with_entries(names)
            done = self._execute(text, *self._flags(self.kernel.sizes[0], SCHEDULES[0]))
            missing = _MISSING.search(done.stderr)
            if not missing:
                return text
            if missing[1] in names:
                raise BrokenKernel(f"{self.kernel.name}: {done.stderr}")
            names.append(missing[1])

    def _run_all(self, text, *flags):
        return sum((self._run_size(text, size, *flags) for size in self.kernel.sizes), ())

    def _run_until_caught(self, text, *flags):
        """The runs of the first size at which a rule speaks; of all sizes, if none does."""
        all_runs = ()
        for size in self.kernel.sizes:
            runs = self._run_size(text, size, *flags)
            if any(run.rules for run in runs):
                return runs
            all_runs += runs
        return all_runs

    def _run_size(self, text, size, *flags):
        return tuple(
            self._run(text, *self._flags(size, schedule), *flags) for schedule in SCHEDULES
        )

    def _flags(self, size, schedule):
        if isinstance(size, str):
            yield from ("--groups", size)
        else:
            yield from ("--m", str(size[0]), "--n", str(size[1]), "--k", str(size[2]))
        yield from ("--schedule", schedule[0], "--seed", str(schedule[1]))
        if self.kernel.launches > 1:
            yield from ("--soak", str(self.kernel.launches))

    def _run(self, text, *flags):
        done = self._execute(text, *flags)
        if done.returncode not in (0, 1):
            raise BrokenKernel(f"{self.kernel.name} can't be run: {done.stdout}{done.stderr}")
        # A lesson whose D is right but that has hazards "FAILs", and says so.
        wrong = re.search(r"^verify +FAIL(?! \(D is right)", done.stdout, re.M)
        rules = frozenset(_FINDING.findall(done.stdout))
        return Run(not wrong and (done.returncode == 0 or bool(rules)), rules)

    def _execute(self, text, *flags):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "mutant.ptx"
            file.write_text(text, encoding="utf-8")
            return subprocess.run(
                [*self.kernel.command, "--ptx", str(file), *flags],
                cwd=kernels.ROOT,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_TIME_LIMIT_S,
            )


WORKERS = os.cpu_count() or 1
