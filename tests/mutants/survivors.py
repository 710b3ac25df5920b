"""Reads survivors.txt: mutants that no rule speaks of, and why.

    KERNEL | OPCODE | MUTATION | `CUDA LINE` #NUMBER
        harmless: Why the kernel does not need what the mutation took from it.

`*` stands for anything. Several such lines may stand above one explanation. In place of
`harmless:`, `gap:` is what the checker should see but does not, `unreached:` what no thread comes
to.
"""

import pathlib
import re
from typing import NamedTuple

PATH = pathlib.Path(__file__).with_name("survivors.txt")
_EXPLANATION = re.compile(r"\s+(harmless|gap|unreached): (\S.*)")


class Entry(NamedTuple):
    line: int
    pattern: str
    kind: str  # "harmless", "gap" or "unreached"
    explanation: str

    def matches(self, name):
        parts = map(re.escape, self.pattern.split("*"))
        return re.fullmatch(".*".join(parts), name) is not None


class BadList(Exception):
    """A line of the list can't be read; the message names it."""


def read(text):
    entries, patterns = [], []
    kind, explanation = None, []

    def close():
        nonlocal patterns, explanation
        if bool(patterns) != bool(explanation):
            raise BadList(f"survivors.txt: line {(patterns or [(1,)])[0][0]} has no explanation.")
        whole = " ".join(explanation)
        entries.extend(Entry(number, pattern, kind, whole) for number, pattern in patterns)
        patterns, explanation = [], []

    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if not line[0].isspace():
            if explanation:
                close()
            if line.count(" | ") < 3:
                raise BadList(f"survivors.txt: line {number} is not KERNEL | OPCODE | ... | LINE.")
            patterns.append((number, line.strip()))
        elif found := _EXPLANATION.fullmatch(line):
            kind, explanation = found[1], [found[2]]
        elif explanation:
            explanation.append(line.strip())
        else:
            raise BadList(
                f"survivors.txt: line {number} has to begin with harmless:, gap: or unreached:."
            )
    close()
    return entries


def load():
    return read(PATH.read_text(encoding="utf-8"))


def find(entries, name):
    """The first entry that matches, or None."""
    return next((entry for entry in entries if entry.matches(name)), None)
