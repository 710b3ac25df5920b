"""Tables of what became of the mutants, for the terminal and for docs/emulator.md."""

import collections
import re
from typing import NamedTuple, Optional

import kernels
import mutations
import survivors
import trial

PAGE = kernels.ROOT / "docs" / "emulator.md"


class Result(NamedTuple):
    kernel: kernels.Kernel
    mutant: mutations.Mutant
    tried: trial.Trial
    entry: Optional[survivors.Entry]  # of survivors.txt

    @property
    def fate(self):
        """Each mutant has one of four."""
        if self.tried.is_caught:
            return "caught"
        if not self.tried.is_reached:
            return "unreached"
        return "harmless" if self.entry and self.entry.kind == "harmless" else "survived"


def by_kernel(results):
    """A row a kernel, and their sum."""
    names = list(dict.fromkeys(result.kernel.name for result in results))
    head = [
        *("kernel", "mutants", "caught", "of these by schedule", "of these strict"),
        *("harmless", "unreached", "survived"),
    ]
    rows = [
        [name, *_counts([result for result in results if result.kernel.name == name])]
        for name in names
    ]
    return _markdown(head, [*rows, ["all", *_counts(results)]], text_columns=1)


def by_mutation(results):
    """A row a kind of instruction and mutation, with the rules that spoke."""
    kinds = {}
    for result in results:
        kinds.setdefault((_family(result.mutant.opcode), result.mutant.mutation), []).append(result)
    rows = [
        [
            f"`{family}`",
            mutation,
            *_counts(group)[:2],
            " ".join(sorted({rule for result in group for rule in result.tried.rules})),
        ]
        for (family, mutation), group in sorted(kinds.items())
    ]
    return _markdown(["instruction", "mutation", "mutants", "caught", "by"], rows, text_columns=2)


def write(results):
    """Puts both tables between their markers in docs/emulator.md."""
    text = PAGE.read_text(encoding="utf-8")
    for name, table in [("kernel", by_kernel(results)), ("mutation", by_mutation(results))]:
        place = re.compile(rf"(<!-- mutants by {name} -->\n).*?(<!-- end -->)", re.S)
        new = "\n".join(table) + "\n"
        text, count = place.subn(lambda found, new=new: found[1] + new + found[2], text)
        if count != 1:
            raise ValueError(f"{PAGE.name} has {count} places for the table of {name}, not one.")
    PAGE.write_text(text, encoding="utf-8")


def _counts(results):
    fates = collections.Counter(result.fate for result in results)
    counts = [
        len(results),
        fates["caught"],
        sum(result.tried.depends_on_schedule for result in results),
        sum(result.tried.is_strict for result in results),
        *(fates[fate] for fate in ("harmless", "unreached", "survived")),
    ]
    return [str(count) for count in counts]


def _family(opcode):
    """The opcode without types, spaces and what else does not change what is synchronized."""
    return re.sub(r"\.(?:shared(?:::\w+)?|global|sync|aligned|[busf]\d+)(?=\.|$)", "", opcode)


def _markdown(head, rows, text_columns):
    rule = ["---"] * text_columns + ["---:"] * (len(head) - text_columns)
    if head[-1] == "by":
        rule[-1] = "---"
    return ["| " + " | ".join(row) + " |" for row in (head, rule, *rows)]
