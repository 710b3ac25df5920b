"""Draws two laps of lesson 04's ring of stages, and what becomes of them without the phase.

Nothing here is measured: what happens follows from the rules of the ring and of mbarriers, and from
how long a copy takes, which is chosen. A product takes 1.
"""

import bisect
import dataclasses

import command
import picture

STAGES = 4
SLOW, FAST = 4.5, 1.5  # copies, in products

RIGHT, STALE, WAIT, COPY = "#009E73", "#D55E00", "#E69F00", "#56B4E9"
PARITY = ("#4D4D4D", "#DDDDDD")  # of the phase in progress

# The layout, in inches.
_WIDTH = 10
_LEFT, _RIGHT, _TOP, _FOOT = 1.15, 0.25, 0.85, 0.42
_HEAD, _BUFFER, _STRIP, _GAP, _AXIS, _LEGEND = 0.57, 0.24, 0.15, 0.14, 0.5, 0.35
_BETWEEN = 0.2  # panels
_STAGE = _BUFFER + 2 * _STRIP + _GAP


@dataclasses.dataclass
class Barrier:
    """An mbarrier, by the moments at which its phases 0, 1, 2, ... complete."""

    completed: list = dataclasses.field(default_factory=list)

    def wait(self, parity, now):
        """When a wait that begins at `now` returns; None if it never does. It asks whether the
        phase before the one in progress has this parity; before phase 0 comes one of parity 1."""
        in_progress = bisect.bisect_right(self.completed, now)
        if in_progress % 2 != parity:
            return now
        return self.completed[in_progress] if in_progress < len(self.completed) else None


@dataclasses.dataclass
class Copy:
    k_tile: int
    begin: float
    end: float


@dataclasses.dataclass
class Product:
    k_tile: int  # that is wanted
    parity: int  # that it waits for
    looked: float  # when it begins to wait
    begin: float | None  # None: it waits for ever
    holds: int | None  # the k-tile that lies in the stage at `begin`

    @property
    def end(self):
        return self.begin + 1


class Ring:
    """What lesson 04's thread 0 does with `k_tiles` k-tiles, in its order: it keeps the ring
    `stages` - 1 k-tiles ahead, and its warpgroup reads them. Without `tracks_phase`, it waits for
    parity 0 of FULL in every lap (--break no-phase)."""

    def __init__(self, stages, k_tiles, copy_time, tracks_phase=True):
        self.full = [Barrier() for _ in range(stages)]
        self.empty = [Barrier() for _ in range(stages)]
        self.copies, self.products = [], []
        self.now = 0.0  # thread 0's; at last, when it leaves or begins to wait for ever
        self._copy_time = copy_time
        for _ in range(min(stages - 1, k_tiles)):
            self._load()
        for k_tile in range(k_tiles):
            if len(self.copies) < k_tiles:
                self._load()
            if not self._multiply(k_tile, tracks_phase):
                break

    @property
    def hangs(self):
        return bool(self.products) and self.products[-1].begin is None

    @property
    def end(self):
        """When nothing moves any more; a copy may land after the CTA has gone, at `now`."""
        return max([self.now, *(copy.end for copy in self.copies)])

    def _load(self):
        k_tile = len(self.copies)
        lap, stage = divmod(k_tile, len(self.full))
        self.now = self.empty[stage].wait(lap % 2 ^ 1, self.now)
        self.copies.append(Copy(k_tile, self.now, self.now + self._copy_time))
        self.full[stage].completed.append(self.copies[-1].end)

    def _multiply(self, k_tile, tracks_phase):
        stages = len(self.full)
        lap, stage = divmod(k_tile, stages)
        parity = lap % 2 if tracks_phase else 0
        begin = self.full[stage].wait(parity, self.now)
        if begin is None:
            self.products.append(Product(k_tile, parity, self.now, None, None))
            return False
        landed = [copy.k_tile for copy in self.copies[stage::stages] if copy.end <= begin]
        self.products.append(Product(k_tile, parity, self.now, begin, holds=landed[-1]))
        self.now = self.products[-1].end
        self.empty[stage].completed.append(self.now)
        return True


def main():
    parser = command.Parser(description=__doc__.split("\n\n")[0], reads_files=False)
    parser.add_output("two_laps.png")
    arguments = parser.parse_args()
    picture.save(draw(), arguments.output)


def draw():
    k_tiles = 2 * STAGES
    panels = [
        (
            "The ring as it is: FULL is awaited with the parity of the lap",
            f"A copy takes as long as {SLOW:g} products, so lap 1 begins with a wait.",
            Ring(STAGES, k_tiles, SLOW),
        ),
        (
            "--break no-phase: parity 0 in every lap",
            "In lap 1 that is phase 0, which is long complete: the products begin at once, on "
            "last lap's tiles, and the last copy lands when the CTA has gone.",
            Ring(STAGES, k_tiles, SLOW, tracks_phase=False),
        ),
        (
            "--break no-phase, and faster copies",
            f"At {FAST:g} products a copy, phase 1 is complete too before anybody looks: parity 0 "
            "now means phase 2, and its copy would come from the thread that waits.",
            Ring(STAGES, k_tiles, FAST, tracks_phase=False),
        ),
    ]
    panel_height = _HEAD + STAGES * _STAGE + _BETWEEN
    fig = picture.figure(
        title=f"Two laps of a ring of {STAGES} stages",
        subtitle="What is in each stage, who uses it, and which phase of its two barriers is in "
        "progress",
        footer="Computed from the rules of the ring, not measured. A wait for a parity returns "
        "once the phase in progress has the other one.",
        width=_WIDTH,
        height=_TOP + len(panels) * panel_height + _AXIS + _LEGEND + _FOOT,
    )
    length = max(ring.end for _, _, ring in panels)
    for rank, (title, text, ring) in enumerate(panels):
        last = rank == len(panels) - 1
        _draw_panel(fig, _TOP + rank * panel_height, title, text, ring, length, last)
    _draw_legend(fig)
    return fig


def _draw_panel(fig, top, title, text, ring, length, has_axis):
    """`top` in inches from the upper edge of the figure."""
    width, height = fig.get_size_inches()
    fig.text(0.2 / width, 1 - (top + 0.06) / height, title, weight="bold", va="top")
    fig.text(0.2 / width, 1 - (top + 0.29) / height, text, fontsize=8.5, va="top")
    rows = STAGES * _STAGE
    axes = fig.add_axes(
        (
            _LEFT / width,
            1 - (top + _HEAD + rows) / height,
            (width - _LEFT - _RIGHT) / width,
            rows / height,
        )
    )
    axes.set_xlim(0, length)
    axes.set_ylim(rows, 0)  # inches, downwards
    axes.grid(axis="y", visible=False)
    axes.spines["left"].set_visible(False)
    axes.set_yticks([])
    axes.set_xticks(range(int(length) + 1))
    axes.tick_params(labelbottom=has_axis)
    if has_axis:
        axes.set_xlabel("time, in products")
    for stage in range(STAGES):
        _draw_stage(axes, ring, stage, stage * _STAGE, length)


def _draw_stage(axes, ring, stage, y, length):
    names = ((f"stage {stage}", _BUFFER, 9), ("FULL", _STRIP, 7), ("EMPTY", _STRIP, 7))
    below = y
    for name, height, size in names:
        middle = below + height / 2
        axes.text(-0.01 * length, middle, name, ha="right", va="center", fontsize=size)
        below += height
    for copy in ring.copies[stage :: len(ring.full)]:
        _bar(axes, copy.begin, copy.end, y, _BUFFER / 2, COPY, f"copy of {copy.k_tile}")
    for product in ring.products[stage :: len(ring.full)]:
        _draw_product(axes, product, y, length)
    end = length if ring.hangs else ring.now
    _draw_phases(axes, ring.full[stage], y + _BUFFER, end)
    _draw_phases(axes, ring.empty[stage], y + _BUFFER + _STRIP, end)
    if not ring.hangs:
        axes.vlines(ring.now, y, y + _STAGE - _GAP, color=picture.INK)


def _draw_product(axes, product, y, length):
    """Below the copies: the wait for the k-tile, and its product."""
    lower, height = y + _BUFFER / 2, _BUFFER / 2
    if product.begin is None:
        text = f"waits for parity {product.parity} for ever"
        _bar(axes, product.looked, length, lower, height, WAIT, text)
        return
    if product.begin > product.looked:
        text = f"wait ({product.parity})"
        _bar(axes, product.looked, product.begin, lower, height, WAIT, text)
    if product.holds == product.k_tile:
        colour, text = RIGHT, f"{product.k_tile}"
    else:
        colour, text = STALE, f"{product.holds}, not {product.k_tile}"
    _bar(axes, product.begin, product.end, lower, height, colour, text, light=True)


def _draw_phases(axes, barrier, y, end):
    begins = [0.0, *(moment for moment in barrier.completed if moment < end)]
    for phase, (begin, until) in enumerate(zip(begins, [*begins[1:], end])):
        text = f"phase {phase}: parity {phase % 2}" if until - begin >= 2 else f"{phase % 2}"
        _bar(axes, begin, until, y, _STRIP, PARITY[phase % 2], text, light=phase % 2 == 0)


def _bar(axes, begin, end, y, height, colour, text, light=False):
    axes.barh(
        y + height / 2, end - begin, height, begin, color=colour, edgecolor="white", linewidth=0.6
    )
    axes.text(
        (begin + end) / 2,
        y + height / 2,
        text,
        ha="center",
        va="center_baseline",
        fontsize=6.5,
        color="white" if light else picture.INK,
    )


def _draw_legend(fig):
    import matplotlib.patches

    entries = [
        (COPY, "a copy on its way"),
        (WAIT, "the reader waits for FULL (parity)"),
        (RIGHT, "a product, on its k-tile"),
        (STALE, "a product, on last lap's"),
        (PARITY[0], "parity 0 in progress"),
        (PARITY[1], "parity 1 in progress"),
    ]
    width, height = fig.get_size_inches()
    fig.legend(
        handles=[matplotlib.patches.Patch(color=colour, label=label) for colour, label in entries],
        loc="lower left",
        bbox_to_anchor=(0.1 / width, (_FOOT - 0.05) / height),
        ncols=len(entries),
        frameon=False,
        fontsize=8,
        handlelength=1,
        columnspacing=1,
        borderaxespad=0,
    )


if __name__ == "__main__":
    command.run(main)
