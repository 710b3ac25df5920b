"""The table of broken variants, broken.txt, and what one run says about a row."""

from pathlib import Path
from typing import NamedTuple

NUMBERS = "numbers"


class Row(NamedTuple):
    """A line of broken.txt; its first comment says what the columns mean."""

    lesson: str
    variant: str
    size: tuple  # M, N, K; empty where the flags name the problems (--groups)
    flags: tuple
    rule: str
    names: str
    every: bool  # whether the rule must speak under every schedule

    @property
    def command_line(self):
        """The flags of a run on the emulator."""
        sizes = [text for flag, size in zip(("--m", "--n", "--k"), self.size) for text in (flag, size)]
        return ("--break", self.variant, *self.flags, *sizes)

    def __str__(self):
        return f"{self.lesson} --break {self.variant}"


def parse(text):
    """The rows of broken.txt."""
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) != 7 or cells[6] not in ("every", "caught"):
            raise ValueError(f"broken.txt:{number}: not a row of seven columns: {line}")
        lesson, variant, size, flags, rule, names, under = cells
        if (rule == NUMBERS) == bool(names):
            raise ValueError(f"broken.txt:{number}: a rule names something, numbers do not: {line}")
        sizes = () if size == "-" else tuple(map(int, size.split("x")))
        if len(sizes) != 3 and (sizes or "--groups" not in flags):
            raise ValueError(f"broken.txt:{number}: neither MxNxK, nor - with --groups: {line}")
        rows.append(
            Row(lesson, variant, sizes, tuple(flags.split()), rule, names, under == "every")
        )
    return rows


def table():
    return parse((Path(__file__).parent / "broken.txt").read_text())


def rule_spoke(row, outcome):
    """Whether the rule spoke and named what it must; of `numbers`, whether D alone is wrong."""
    if row.rule == NUMBERS:
        return outcome.wrong > 0 and outcome.hazards == 0
    return any(
        finding.rule == row.rule and row.names in f"{finding.sentence} {finding.place}"
        for finding in outcome.findings
    )


def complaints(row, outcomes):
    """Sentences about what is not as the row says, after its runs under several schedules."""
    said = []
    for outcome in outcomes:
        if outcome.trouble:
            said.append(f"{outcome.command}: {outcome.trouble}\n{outcome.output}")
        elif outcome.status != 1 or (outcome.wrong == 0 and outcome.hazards == 0):
            said.append(f"{outcome.command}: was not caught\n{outcome.output}")
        elif row.every and not rule_spoke(row, outcome):
            said.append(f"{outcome.command}: {row.rule} did not name {row.names}\n{outcome.output}")
    if not any(rule_spoke(row, outcome) for outcome in outcomes):
        said.append(f"{row}: {row.rule}, naming {row.names}, spoke under none of the schedules")
    return said
