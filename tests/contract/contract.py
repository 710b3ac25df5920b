"""The compile contract: what ptxas must make of each kernel. The table is contract.txt."""

import re
import subprocess
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple


class Spills(NamedTuple):
    """Bytes of a kernel's stack frame, and what it stores to and loads from it."""

    stack: int
    stores: int
    loads: int

    def __str__(self):
        return "/".join(map(str, self))


class Row(NamedTuple):
    """A line of contract.txt; its first comment says what the columns mean."""

    lesson: str
    pattern: str
    registers: int
    shared: int
    spills: object  # the Spills of a kernel that is there to spill, or None
    required: tuple
    forbidden: tuple

    def matches(self, kernel):
        return fnmatchcase(kernel, self.pattern)


class Usage(NamedTuple):
    """What ptxas -v says of a kernel: registers a thread, bytes of shared memory, spills."""

    registers: int
    shared: int
    spills: Spills


def parse_table(text):
    """The rows of contract.txt."""

    def opcodes(cell):
        return () if cell == "-" else tuple(cell.split(","))

    def spills(cell):
        return None if cell == "-" else Spills(*map(int, cell.split("/")))

    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        cells = line.partition("#")[0].split()
        if not cells:
            continue
        if (
            len(cells) != 7
            or not (cells[2] + cells[3]).isdigit()
            or not re.fullmatch(r"-|\d+/\d+/\d+", cells[4])
        ):
            raise ValueError(f"contract.txt:{number}: not a row of seven columns: {line}")
        lesson, pattern, registers, shared, spilled, required, forbidden = cells
        rows.append(
            Row(
                lesson,
                pattern,
                int(registers),
                int(shared),
                spills(spilled),
                opcodes(required),
                opcodes(forbidden),
            )
        )
    return rows


def parse_log(text):
    """The kernels (PTX names) in what `ptxas -v` printed, and what each uses."""
    kernels = {}
    # The text of a kernel includes the functions that were not inlined into it.
    for part in re.split(r"Compiling entry function '", text)[1:]:
        used = re.search(r"Used (\d+) registers(?:.*?, (\d+) bytes smem)?", part)
        frames = re.findall(
            r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", part
        )
        if not used or not frames:
            raise ValueError(f"ptxas -v did not say what a kernel uses: {part}")
        kernels[part.partition("'")[0]] = Usage(
            registers=int(used[1]),
            shared=int(used[2] or 0),
            spills=Spills(*(sum(map(int, column)) for column in zip(*frames))),
        )
    return kernels


def readable_names(ptx_names):
    """Maps PTX names to the form of contract.txt, `gemm_tma<128,128,(Break)0>`: without spaces,
    result type, namespaces and parameters."""
    names = list(ptx_names)
    demangled = subprocess.run(
        ["c++filt"], input="\n".join(names), stdout=subprocess.PIPE, text=True, check=True
    ).stdout.splitlines()
    readable = {}
    for name, text in zip(names, demangled):
        text = text.replace("(anonymous namespace)::", "").replace(" ", "").removeprefix("void")
        text = re.sub(r"\((\((?:\w+::)*(\w+)\))(\d+)\)", r"(\2)\3", text)
        readable[name] = re.match(r"(?:\w+::)*(\w+(?:<.*?>)?)(?:\(|$)", text)[1]
    return readable


def parse_disassembly(text):
    """The opcodes of each kernel (PTX name) in the output of `nvdisasm -c`."""
    opcodes = {}
    for part in re.split(r"^\.text\.", text, flags=re.M)[1:]:
        name, _, body = part.partition(":\n")
        opcodes[name] = set(re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?\w+\s+)?([A-Z][\w.]*)", body))
    return opcodes


def broken_limits(row, usage, exact_spills=True):
    """Sentences about what `usage` breaks in `row`; none is fine. Unless `exact_spills`, a kernel
    that is there to spill may spill more or less."""
    complaints = []
    if usage.registers > row.registers:
        complaints.append(f"uses {usage.registers} registers, more than {row.registers}")
    if usage.shared != row.shared:
        complaints.append(f"has {usage.shared} bytes of static shared memory, not {row.shared}")
    if row.spills is None and any(usage.spills):
        complaints.append(f"has a stack frame or spills: {usage.spills} bytes")
    if row.spills is not None and exact_spills and usage.spills != row.spills:
        complaints.append(f"spills {usage.spills} bytes, not {row.spills}")
    if row.spills is not None and not all(usage.spills):
        complaints.append(f"is there to spill, and does not: {usage.spills} bytes")
    return complaints


def broken_claims(row, opcodes):
    """Sentences about instructions that `row` requires or forbids; none is fine."""

    def has(wanted):
        return any(opcode == wanted or opcode.startswith(wanted + ".") for opcode in opcodes)

    return [f"has no {wanted}" for wanted in row.required if not has(wanted)] + [
        f"has {unwanted}" for unwanted in row.forbidden if has(unwanted)
    ]
