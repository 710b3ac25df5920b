"""Which kernels are mutated, and how each is run. A new lesson joins by a row of KERNELS."""

import pathlib
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Kernel(NamedTuple):
    """One instantiation, as a program runs it that takes a lesson's flags."""

    name: str  # as tables and survivors.txt have it
    command: tuple  # the program and the flags that choose the instantiation
    ptx: str  # what the program is made of
    sizes: tuple  # (m, n, k) or --groups, each run under every schedule until a rule speaks
    launches: int = 1  # one after the other; 2 where a launch leaves something to the next
    share: int = 24  # `make test` tries one mutant in so many, and with 0 none


def lesson(number, sizes, launches=1, share=24, **settings):
    """The right variant of a lesson, with these knobs and other flags."""
    flags = [word for name, value in settings.items() for word in (f"--{name}", value)]
    name = " ".join([f"lesson{number:02}", *flags]).replace("--", "")
    command = (f"./lesson{number:02}", "--device", "emulator", "--check-only", *flags)
    return Kernel(name, command, f"build/lesson{number:02}.ptx", sizes, launches, share)


def test_kernel(name, source, sizes, variant="none", launches=1):
    """A right kernel of tests/kernels/SOURCE.cu; `variant` is its enumerator of Break."""
    shown = name if variant == "none" else f"{name} {variant}"
    command = ("build/run_kernel", name, "--variant", variant)
    return Kernel(shown, command, f"build/tests/kernels/{source}.ptx", sizes, launches)


# Tails in every direction, several CTAs, and so many steps along K that a ring goes around more
# often than a barrier has arrivals: a count that is off by one shows when it adds up to a whole
# phase. Lessons 07 to 11 have more tiles than the emulator's 4 SMs, and lesson 08 so many that
# each consumer of a CTA gets three or more; without k-tiles, too, since then no wgmma orders the
# lanes of a warp. Lesson 01 is not here: its threads have nothing to tell each other.

# Lessons 09 and 10: with some clusters the last tiles of the first size leave by ordinary stores,
# and nobody would miss the last wait for the copy engine; those of the second leave by TMA.
TILE_SIZES = ((264, 524, 456), (264, 512, 0))

# Where a tile is stored under the next one's products: one that leaves by ordinary stores and is not
# its CTA's last, and K with fewer k-tiles than a tile has chunks.
DEFERRED_SIZES = (*TILE_SIZES, (264, 524, 72))

# Lesson 11: an owner with two contributors. A CTA that gives away a piece and then owns one with no
# more k-tiles than the ring has stages: one consumer can be a piece ahead of the other. Last,
# pieces, whole tiles on the tape, and a wave of others behind it.
STREAM_K_SIZES = ((100, 252, 1500), (300, 252, 1000), (264, 524, 800))

# Lesson 12: in each list a CTA has more tiles than the queue has slots. With beta 1 C is read; tails
# of M, N and K, and an N that is no multiple of 8. Then K = 0, where no wgmma orders the lanes of a
# warp, groups without elements, and groups of other K.
GROUP_LISTS = ("300x260x264*6", "100x300x0*12,0x128x64,65x263x136*6")

# Lessons 13 and 14: the last chunks of the first size's rows leave by ordinary stores. With the
# second size, a CTA has so many tiles that each slot of the queue is used again. With C alone, a
# consumer has four buffers, with two inputs or outputs it has two.
FUSED_SIZES = ((400, 516, 328), (400, 720, 0))

# Lesson 16: a team of three CTAs with four panels, whose last tiles leave by ordinary stores. Then
# a team whose CTAs have one or two tiles of a panel, and no k-tiles.
ROW_SIZES = ((390, 604, 264), (260, 1034, 0))

BACKWARD = {"pass": "backward", "bias": "column", "scalar": "sum", "beta": "1"}
FORWARD = {"pass": "forward", "bias": "column", "scalar": "amax"}

KERNELS = (
    lesson(0, [(0, 0, 0)], width="64"),  # has problems of its own
    lesson(2, [(72, 72, 200)], tile="64x64"),
    lesson(2, [(136, 72, 200)], tile="128x128"),
    lesson(3, [(72, 72, 264)], tile="64x64"),
    lesson(3, [(136, 72, 264)], tile="128x128"),
    lesson(4, [(136, 136, 840)], stages="3", tile="128x128"),
    lesson(5, [(136, 136, 1600)], stages="5", lag="1"),
    lesson(6, [(264, 200, 584)], consumers="2"),
    lesson(7, [(264, 524, 456)], tile="128x256", beta="1"),
    lesson(8, [(500, 772, 0), (500, 772, 456)], tile="128x128", beta="1"),
    lesson(9, DEFERRED_SIZES, share=144, swizzle="1", beta="1"),
    lesson(9, TILE_SIZES, share=0, epilogue="plain", beta="1"),
    lesson(10, TILE_SIZES, share=144, cluster="2x1", beta="1"),
    lesson(10, TILE_SIZES, share=0, cluster="1x2", beta="1"),
    lesson(10, TILE_SIZES, share=0, cluster="4x1", release="cluster", beta="1"),
    lesson(11, STREAM_K_SIZES, 2, share=144, split="hybrid", beta="1"),
    lesson(11, STREAM_K_SIZES, 2, share=0, split="hybrid", fixup="atomic", beta="1"),
    lesson(12, GROUP_LISTS, share=288, tile="64x256", beta="1"),
    lesson(12, GROUP_LISTS, share=0, tile="128x128", beta="1"),
    lesson(13, FUSED_SIZES, share=144, bias="column", beta="1"),
    lesson(14, FUSED_SIZES, share=144, **BACKWARD),
    lesson(14, FUSED_SIZES, share=0, **FORWARD),
    lesson(16, ROW_SIZES, 2, share=144, mode="softmax"),
    lesson(16, ROW_SIZES, 2, share=0, mode="topk", top="4"),
    test_kernel("ring<1, 2>", "ring", [(136, 72, 776)]),
    test_kernel("ring<2, 3>", "ring", [(136, 136, 1160)]),
    test_kernel("multicast<2>", "multicast", [(130, 64, 1160)]),
    test_kernel("multicast<4>", "multicast", [(130, 64, 1160)]),
    test_kernel("multicast<2>", "multicast", [(130, 64, 1160)], variant="producer_leaves"),
    test_kernel("multicast<2>", "multicast", [(130, 64, 1160)], variant="relaxed_sync"),
    test_kernel("split_k<false>", "split_k", [(17, 9, 200)], launches=2),
    test_kernel("split_k<true>", "split_k", [(17, 9, 200)], launches=2),
)
