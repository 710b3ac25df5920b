"""Deletes or perturbs each synchronization instruction of a PTX text, one at a time."""

import collections
import re
from typing import NamedTuple

import ptx


class Mutant(NamedTuple):
    opcode: str
    mutation: str  # "delete", "count + 1"
    source: str  # the CUDA line; with "#2" where several such instructions come from it
    text: str  # the whole PTX
    probe: str  # the whole PTX with a trap in the instruction's place: is it ever reached?

    def name(self, kernel):
        """As survivors.txt has it."""
        return " | ".join([kernel.name, self.opcode, self.mutation, self.source])


def mutants(text):
    """All mutants of all entries of `text`."""
    instructions = [each for each in ptx.Module(text).instructions() if _rules_of(each)]
    alike = collections.Counter((each.opcode, each.source) for each in instructions)
    seen = collections.Counter()
    for instruction in instructions:
        key = instruction.opcode, instruction.source
        seen[key] += 1
        source = f"`{instruction.source}`" + (f" #{seen[key]}" if alike[key] > 1 else "")
        before, after = text[: instruction.begin], text[instruction.end :]
        probe = f"{before} {instruction.guard}trap;{after}"
        for rule in _rules_of(instruction):
            for mutation, replacement in rule(instruction):
                mutated = before + replacement + after
                yield Mutant(instruction.opcode, mutation, source, mutated, probe)


# ---- Rules. Each takes an instruction, and yields mutations with the PTX that takes its place: on
# the same line, so that .loc is right.


def _written(instruction, opcode=None, operands=None):
    operands = instruction.operands if operands is None else operands
    return f" {instruction.guard}{opcode or instruction.opcode} {', '.join(operands)};"


def _delete(instruction):
    """What would have got a result is left out by the rules below."""
    yield "delete", ""


def _do_not_wait(instruction):
    """The wait says at once that it is over."""
    yield "delete", f" {instruction.guard}setp.eq.u32 {instruction.operands[0]}, 0, 0;"


def _elect_all(instruction):
    """Every lane is the elected one."""
    predicate = instruction.operands[0].split("|")[1]
    yield "elect all lanes", f"{_written(instruction)} setp.eq.u32 {predicate}, 0, 0;"


def _changed(operand, operation, amount):
    """PTX that computes `operand` +- amount or operand xor amount, and what has the result."""
    if re.fullmatch(r"\d+", operand):
        value = int(operand) ^ amount if operation == "xor" else int(operand) + amount
        return "", str(value)
    code = "xor.b32" if operation == "xor" else "add.s32"
    return f".reg .b32 mutant; {code} mutant, {operand}, {amount};", "mutant"


def _scoped(prepare, changed):
    """In a scope of its own, if it needs a register."""
    return f" {{ {prepare}{changed} }}" if prepare else changed


def _operand(what, index, operation, *amounts, least=0, most=1 << 20):
    """A rule: another value for an operand that is a number or a 32-bit register."""

    def rule(instruction):
        for amount in amounts:
            operands = list(instruction.operands)
            prepare, operands[index] = _changed(operands[index], operation, amount)
            if not prepare and not least <= int(operands[index]) <= most:
                continue
            sign = "+" if amount > 0 else "-"
            name = f"flip {what}" if operation == "xor" else f"{what} {sign} {abs(amount)}"
            yield name, _scoped(prepare, _written(instruction, operands=operands))

    return rule


def _arrive_twice(instruction):
    """One arrival more; a number of them may already stand behind the address."""
    state, address, *count = instruction.operands
    prepare, more = _changed(count[0], "add", 1) if count else ("", "2")
    yield "count + 1", _scoped(prepare, _written(instruction, operands=(state, address, more)))


def _barrier_threads(instruction):
    """32 threads more and fewer; where no number stands, all threads of the CTA are meant."""
    operands = instruction.operands
    if len(operands) == 1:
        if instruction.threads is None:
            return
        instruction = instruction._replace(operands=(*operands, str(instruction.threads)))
    yield from _operand("threads", 1, "add", 32, -32, least=32, most=1024)(instruction)


def _qualifier(what, pattern, replacement):
    """A rule: another word of the opcode, where it has such a word."""

    def rule(instruction):
        opcode, count = re.subn(pattern, replacement, instruction.opcode, count=1)
        if count:
            yield what, _written(instruction, opcode)

    return rule


# Opcodes and what is done to them. An opcode takes the rules of all patterns that match it whole.
# A floating-point red adds data: without it a sum is wrong, but nothing is less in order.
_RULES = [
    (
        r"fence\..*|membar\..*|bar\.warp\.sync"
        r"|(?:bar|barrier)(?:\.cta)?\.(?:sync|arrive)(?:\.aligned)?|barrier\.cluster\..*|mbarrier\.(?:init|expect_tx|complete_tx)\..*"
        r"|wgmma\.(?:fence|commit_group|wait_group)\..*|cp\.async\.bulk\.(?:commit|wait)_group.*"
        r"|setmaxnreg\..*|griddepcontrol\..*|tensormap\.cp_fenceproxy\..*"
        r"|(?:red|st)\.(?!.*\.b?f\d+(?:x2)?$).*\b(?:release|relaxed|volatile)\b.*|red\.async\..*",
        [_delete],
    ),
    (r"mbarrier\.arrive\..*", [_delete]),
    (r"mbarrier\.arrive(?!.*expect_tx)\..*", [_arrive_twice]),
    (r"mbarrier\.init\..*", [_operand("count", 1, "add", 1, -1)]),
    (r"mbarrier\.(?:arrive\.)?expect_tx\..*", [_operand("bytes", -1, "add", 16, -16)]),
    (r"mbarrier\.(?:try|test)_wait\..*", [_do_not_wait]),
    (r"mbarrier\.(?:try|test)_wait\.parity\..*", [_operand("parity", 2, "xor", 1)]),
    (
        r"(?:bar|barrier)(?:\.cta)?\.(?:sync|arrive)(?:\.aligned)?",
        [_operand("id", 0, "add", 1, most=15), _barrier_threads],
    ),
    (
        r"(?:wgmma|cp\.async\.bulk)\.wait_group.*",
        [_operand("groups", 0, "add", 1, -1)],
    ),
    (r"cp\.async\.bulk\.wait_group", [_qualifier("only .read", r"$", ".read")]),
    (r"setmaxnreg\..*", [_operand("registers", 0, "add", 8, -8, least=24, most=256)]),
    (r"elect\.sync", [_elect_all]),
    # Ordering. What says nothing releases or acquires at the scope of the CTA.
    (
        r"mbarrier\.(?:arrive|try_wait|test_wait)\.(?!.*\b(?:release|acquire|relaxed)\b).*",
        [
            _qualifier(
                "relaxed",
                r"(?=\.(?:shared::cta|shared::cluster|shared|b64)(?:\.|$))",
                ".relaxed.cta",
            )
        ],
    ),
    (
        r"(?:mbarrier\.(?:arrive|try_wait|test_wait)|barrier\.cluster\.arrive|ld|st|red|atom)\..*"
        r"\b(?:release|acquire|acq_rel)\b.*",
        [_qualifier("relaxed", r"\.(?:release|acquire|acq_rel)\b", ".relaxed")],
    ),
    (
        r"atom\..*\bacq_rel\b.*",
        [
            _qualifier("only acquire", r"\.acq_rel\b", ".acquire"),
            _qualifier("only release", r"\.acq_rel\b", ".release"),
        ],
    ),
    (
        r"barrier\.cluster\.arrive(?:\.aligned)?",
        [_qualifier("relaxed", r"\.arrive", ".arrive.relaxed")],
    ),
    (
        r"(?:mbarrier\.(?:arrive|try_wait|test_wait)|fence\.(?:sc|acq_rel|acquire|release)"
        r"|ld|st|red|atom)\..*",
        [_qualifier("scope cta", r"\.(?:cluster|gpu|sys)(?=\.|$)", ".cta")],
    ),
    (r"fence\.proxy\.async", [_qualifier("only .global", r"$", ".global")]),
    (
        r"fence\.proxy\.async\.shared::.*",
        [_qualifier("only .global", r"\.shared::\w+", ".global")],
    ),
]
_COMPILED = [(re.compile(pattern), rules) for pattern, rules in _RULES]


def _rules_of(instruction):
    return [
        rule
        for pattern, rules in _COMPILED
        if pattern.fullmatch(instruction.opcode)
        for rule in rules
    ]
