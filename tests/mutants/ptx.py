"""Reads what mutations need of a PTX text: its entries, and where their instructions come from."""

import functools
import math
import pathlib
import re
from typing import NamedTuple, Optional

_ROOT = pathlib.Path(__file__).resolve().parents[2]
# Has the roles of kernels that do nothing else than to call it: as good as the kernel's own file.
_ROLES = "common/gemm/fused_roles.cuh"
_ENTRY = re.compile(r"^(?:\.\w+ )*\.entry (\w+)", re.M)
_BOUNDS = re.compile(r"^\.(?:maxntid|reqntid) ([\d, ]+)", re.M)
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.M)
_LOC = re.compile(r"^\s*\.loc\s+(\d+ \d+ \d+)(?:.*inlined_at (\d+ \d+ \d+))?")
_INSTRUCTION = re.compile(
    r"(?:^|(?<=[;{}:]))[ \t]*(?P<guard>@!?[%\w$]+[ \t]+)?(?P<opcode>[a-z][\w.:]*)"
    r"(?:[ \t]+(?P<operands>[^;]*))?;"
)


class Instruction(NamedTuple):
    """`begin` and `end` delimit it in the text of the module, guard and semicolon included."""

    begin: int
    end: int
    guard: str  # "@%p1 " or ""
    opcode: str
    operands: tuple  # of text
    source: str  # the CUDA line, without blanks and comments
    threads: Optional[int]  # of the CTA, by the launch bounds of the entry


class Module:
    """A PTX text, cut at its entries."""

    def __init__(self, text):
        self._text = text
        self._entries = {
            match[1]: (match.start(), _end_of_body(text, match.end()))
            for match in _ENTRY.finditer(text)
        }
        self._files = {int(number): path for number, path in _FILE.findall(text)}

    def with_entries(self, names):
        """The text without all other entries."""
        kept, at = [], 0
        for name, (begin, end) in self._entries.items():
            if name not in names:
                kept.append(self._text[at:begin])
                at = end
        return "".join([*kept, self._text[at:]])

    def instructions(self):
        """The instructions of all entries, in order."""
        for begin, end in self._entries.values():
            yield from self._instructions_between(begin, end)

    def _instructions_between(self, begin, end):
        entry_file, source, callers = None, "", {}
        bounds = _BOUNDS.search(self._text, begin, end)
        threads = math.prod(map(int, re.findall(r"\d+", bounds[1]))) if bounds else None
        for line in re.finditer(r".*\n", self._text[begin:end]):
            code = line[0].split("//")[0].rstrip("\n")
            if found := _LOC.match(code):
                place, caller = found.groups()
                callers[place] = caller
                entry_file = entry_file or place.split()[0]
                source = self._source_of(place, entry_file, callers) or source  # line 0: nobody's
                continue
            for found in _INSTRUCTION.finditer(code):
                yield Instruction(
                    begin + line.start() + found.start(),
                    begin + line.start() + found.end(),
                    found["guard"] or "",
                    found["opcode"],
                    _split(found["operands"] or ""),
                    source,
                    threads,
                )

    def _source_of(self, place, entry_file, callers):
        """The CUDA line of a .loc. What was inlined from another file is known by the line that
        calls it, through whatever files: `callers` has the last caller of each place."""
        passed = set()
        while place and place not in passed:
            file, number, _ = place.split()
            if file == entry_file or _in_repository(self._files.get(int(file), "")) == _ROLES:
                return _source_line(self._files[int(file)], int(number))
            passed.add(place)
            place = callers.get(place)
        return ""


def _end_of_body(text, at):
    """The position behind the closing brace; comments have no braces in nvcc's PTX."""
    depth = 0
    for brace in re.compile(r"[{}]").finditer(text, at):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.end()
    raise ValueError("The PTX ends within an entry.")


def _split(operands):
    """The operands between the commas that are in no brackets or braces."""
    parts = re.findall(r"(?:\[[^\]]*\]|\{[^}]*\}|[^,])+", operands)
    return tuple(part.strip() for part in parts if part.strip())


def _in_repository(path):
    """The path below whatever folder the repository was in, or None."""
    own = re.fullmatch(r"(?:.*/)?((?:lessons|common|tests)/.*)", path)
    return own and own[1]


def _source_line(path, number):
    lines = _lines(path)
    return lines[number - 1].split("//")[0].strip() if 0 < number <= len(lines) else ""


@functools.cache
def _lines(path):
    """Of a file of the repository, wherever that was when the PTX was made; others have none."""
    own = _in_repository(path)
    file = _ROOT / own if own else None
    return file.read_text(encoding="utf-8").splitlines() if file and file.is_file() else []
