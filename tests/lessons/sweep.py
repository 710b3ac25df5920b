"""The problems that each lesson is held to on the emulator: k-tiles around the number of its
stages, tails in M, N and K, few and many tiles, coefficients, pitches, every value of every knob.
Lesson 12 has lists of problems.
"""

import itertools
from typing import NamedTuple

TILE_K = 64
EMULATED_SMS = 4


def knob_flags(knobs):
    return tuple(text for knob, value in knobs.items() for text in (f"--{knob}", str(value)))


class Config(NamedTuple):
    """A lesson with some of its knobs: what these make of its tile and its stages."""

    lesson: str
    knobs: dict
    tile: tuple  # rows, columns of D that a CTA computes at once
    stages: int = 1
    k_tiles: tuple = ()  # counts that matter to it, beside those around its stages
    tile_k: int = TILE_K
    pitch_multiple: int = 8  # elements that make 16 bytes

    @property
    def flags(self):
        """The knobs as a command line has them."""
        return knob_flags(self.knobs)


class Case(NamedTuple):
    """A command line."""

    lesson: str
    flags: tuple
    in_sample: bool  # whether `make test` has it

    def __str__(self):
        return " ".join([self.lesson, *map(str, self.flags)])


class Form(NamedTuple):
    """M and N in tiles, less `tails` elements; coefficients; pitches."""

    tiles: tuple
    tails: tuple = (0, 0)
    flags: tuple = ()
    pitched: bool = False


FORMS = [
    Form(tiles=(1, 1)),
    Form(tiles=(1, 1), tails=(57, 55)),  # N is no multiple of 8
    Form(tiles=(3, 1), tails=(5, 0), flags=("--beta", 1)),  # odd, fewer tiles than SMs
    Form(tiles=(1, 3), tails=(0, 3), flags=("--alpha", -0.5, "--beta", 2)),
    Form(tiles=(1, EMULATED_SMS + 1), tails=(63, 16)),  # odd, more tiles than SMs
    Form(tiles=(2, 1), tails=(0, 8), flags=("--alpha", 0, "--beta", 2)),
    Form(tiles=(3, 3), tails=(1, 1), flags=("--beta", 1)),
    Form(tiles=(1, 2), tails=(9, 20), flags=("--beta", -1), pitched=True),
    Form(tiles=(EMULATED_SMS + 2, 1), tails=(17, 40)),
]


def k_tile_counts(stages):
    """Nothing, one, two; around one lap of the ring, and around two; 9."""
    return sorted({0, 1, 2, stages - 1, stages, stages + 1, 2 * stages + 1, 9})


def flags_of(config, form, k_tiles, k_tail):
    """The command line of a case; K is `k_tail` less than whole k-tiles."""
    m, n = (
        max(1, tiles * tile - tail)
        for tiles, tile, tail in zip(form.tiles, config.tile, form.tails)
    )
    k = max(0, k_tiles * config.tile_k - k_tail)
    flags = [*config.flags, "--m", m, "--n", n, "--k", k, *form.flags]
    if form.pitched:

        multiple = config.pitch_multiple

        def pitch(row):
            return (row + multiple - 1) // multiple * multiple + multiple

        flags += ["--lda", pitch(k), "--ldb", pitch(k) + multiple]
        flags += ["--ldc", pitch(n), "--ldd", pitch(n)]
    return tuple(flags)


def tile_of(text):
    return tuple(map(int, text.split("x")))


def naive(walk="rotated", patch="4x8"):
    rows, columns = tile_of(patch)
    return Config("lesson01", {"walk": walk, "patch": patch}, (8 * rows, columns))


def one_buffer(lesson, tile="128x128"):
    """Lessons 02 and 03."""
    return Config(lesson, {"tile": tile}, tile_of(tile))


def ring_buffer(stages=2, tile="128x128"):
    return Config("lesson04", {"stages": stages, "tile": tile}, tile_of(tile), stages)


def warp_specialization(stages=3, lag=1):
    return Config("lesson05", {"stages": stages, "lag": lag}, (128, 128), stages)


def setmaxnreg(consumers=1, switch="on"):
    tile, stages = {1: ((128, 128), 3), 2: ((256, 192), 4), 3: ((192, 200), 4)}[consumers]
    return Config("lesson06", {"consumers": consumers, "setmaxnreg": switch}, tile, stages)


def cooperative(tile="128x256", band=8):
    return Config("lesson07", {"tile": tile, "band": band}, tile_of(tile), stages=4)


def ping_pong(tile="128x128", band=8):
    stages = {"64x128": 8, "64x256": 4, "128x128": 6, "128x184": 4, "128x200": 5}[tile]
    return Config("lesson08", {"tile": tile, "band": band}, tile_of(tile), stages)


def persistent(
    raster="auto",
    swizzle="auto",
    switch="on",
    serpentine="off",
    tile="128x256",
    epilogue="deferred",
):
    """Deferred, a tile leaves in four pieces, one for each of the next tile's first k-tiles."""
    knobs = {"raster": raster, "swizzle": swizzle, "persistent": switch, "serpentine": serpentine}
    knobs = {**knobs, "epilogue": epilogue, "tile": tile}
    return Config("lesson09", knobs, tile_of(tile), stages=4)


def multicast(cluster="2x1", release="cta"):
    return Config("lesson10", {"cluster": cluster, "release": release}, (128, 256), stages=4)


def stream_k(split="auto", groups=1, fixup="ordered", launches=1, walk="backwards"):
    """With 33 k-tiles, a tile has up to four contributors. What a launch leaves in the flags, the
    next one finds."""
    knobs = {"split": split, "groups": groups, "fixup": fixup, "walk": walk}
    if launches > 1:
        knobs["soak"] = launches
    return Config("lesson11", knobs, (128, 256), stages=4, k_tiles=(17, 33))


def fused(**knobs):
    return Config("lesson13", knobs, (128, 128), stages=5)


def training(**knobs):
    return Config("lesson14", knobs, (128, 128), stages=5)


def fp8_scaling(promote="never", tile="auto", **knobs):
    if tile != "auto":
        columns = tile_of(tile)[1]
    elif promote == "never":
        columns = 256
    else:
        columns = 128 if knobs.get("blocks") == "1x128" else 192
    flags = {"promote": promote, "tile": tile}
    flags.update((knob.replace("_", "-"), value) for knob, value in knobs.items())
    stages = 6 if columns == 128 else 4
    return Config(
        "lesson15", flags, (128, columns), stages, tile_k=128, pitch_multiple=16
    )


def fp8_scalings():
    """Each value of each knob, and what goes together in the epilogue: scales, output, blocks."""
    vectors = {"scale_a": "row", "scale_b": "column"}
    yield fp8_scaling(type_a="e4m3", type_b="e4m3", scale_a="tensor", scale_b="tensor",
                      output="bf16", blocks="none", values="ordinary")
    yield fp8_scaling(**vectors)
    yield fp8_scaling(scale_b="column", output="e4m3", scale_d=4)
    yield fp8_scaling(scale_a="row", output="e5m2", scale_d=300)
    yield fp8_scaling(type_b="e5m2", output="e4m3", blocks="1x32", **vectors)
    yield fp8_scaling(type_a="e5m2", output="e5m2", blocks="1x128")
    yield fp8_scaling(type_a="e5m2", type_b="e5m2", values="awkward")
    yield fp8_scaling(values="awkward", output="e4m3", blocks="1x128", **vectors)
    for tile in ("128x192", "128x128"):
        yield fp8_scaling(tile=tile, **vectors)
    yield fp8_scaling("1", **vectors)
    yield fp8_scaling("2", type_a="e5m2", output="e4m3")
    yield fp8_scaling("4", type_b="e5m2", output="e5m2", blocks="1x32", values="awkward")
    yield fp8_scaling("8", output="e4m3", blocks="1x128", **vectors)
    yield fp8_scaling("1", type_a="e5m2", type_b="e5m2", values="awkward")
    yield fp8_scaling("2", "128x256", output="e4m3", blocks="1x128")
    yield fp8_scaling("4", "128x128", scale_a="row")
    yield fp8_scaling("1", values="positive")


def configs():
    """Of each lesson the default knobs, then others, so that each value of each knob is there."""
    patches = ("1x32", "2x16", "4x8")
    walks = [(walk, patch) for walk in ("element", "chunk", "rotated") for patch in patches]
    one_buffers = ("128x128", "64x64", "64x128", "64x256")
    rings = [(stages,) for stages in (1, 3, 4, 5, 6, 7)] + [(2, "64x128"), (8, "64x128")]
    lags = [(1, 0), (2, 1), (3, 0), (3, 2), (4, 3), (5, 1), (6, 2), (7, 3)]
    rasters = [(raster, swizzle) for raster in ("m", "n") for swizzle in (1, 2, 4, 8, 16)]
    clusters = [(cluster,) for cluster in ("1x1", "1x2", "4x1", "1x4")] + [
        (cluster, "cluster") for cluster in ("2x1", "1x2", "4x1", "1x4")
    ]
    splits = [(split,) for split in ("half-rule", "data-parallel", "stream-k", "hybrid", "split-k")]
    splits += [("stream-k", groups) for groups in (2, 4)]
    splits += [(split, 1, "atomic") for split in ("stream-k", "hybrid", "split-k")]
    splits += [("hybrid", 2, "atomic")]
    splits += [(split, 1, "ordered", 3) for split in ("stream-k", "hybrid", "split-k")]
    splits += [(split, 1, "ordered", 1, "forwards") for split in ("stream-k", "hybrid")]
    activations = ("none", "relu", "gelu", "gelu-tanh", "silu")
    types = ("bf16", "f16", "f32")
    biases = ("row", "column", "none")
    fusions = [
        fused(activation=activation, output=types[i % 3], bias=biases[i % 3], residual="off")
        for i, activation in enumerate(activations)
    ]
    fusions += [
        fused(activation=activation, output=types[i % 3], residual="on", values=values)
        for i, (activation, values) in enumerate(
            (activation, values) for activation in activations for values in ("drawn", "awkward")
        )
    ]
    scalars = ("none", "amax", "sum")
    steps = [
        training(
            **{"pass": way},
            activation=activation,
            bias=biases[i % 3],
            scalar=scalars[i // 2 % 3],
        )
        for i, (way, activation) in enumerate(
            (way, activation) for activation in activations[1:] for way in ("forward", "backward")
        )
    ]
    # What a launch leaves in the counts, the next one finds.
    steps += [
        training(**{"pass": "backward"}, bias=bias, scalar="sum", sums="ordered", soak=3)
        for bias in ("row", "column")
    ]
    steps += [
        training(**{"pass": "backward"}, bias=bias, scalar=scalar, sums="atomic")
        for bias, scalar in (("row", "amax"), ("column", "sum"))
    ]
    registers = [(1, "off"), (2, "on"), (2, "off"), (3, "on"), (3, "off")]
    return {
        "lesson01": [naive(), *(naive(*knobs) for knobs in walks if knobs != ("rotated", "4x8"))],
        "lesson02": [one_buffer("lesson02", tile) for tile in one_buffers],
        "lesson03": [one_buffer("lesson03", tile) for tile in one_buffers],
        "lesson04": [ring_buffer(), *(ring_buffer(*knobs) for knobs in rings)],
        "lesson05": [warp_specialization(), *(warp_specialization(*knobs) for knobs in lags)],
        "lesson06": [setmaxnreg(), *(setmaxnreg(*knobs) for knobs in registers)],
        "lesson07": [
            cooperative(),
            cooperative("256x128"),
            *(cooperative(band=band) for band in (1, 4, 16)),
        ],
        "lesson08": [
            ping_pong(),
            *(ping_pong(tile) for tile in ("64x128", "64x256", "128x184", "128x200")),
            *(ping_pong(band=band) for band in (1, 4, 16)),
        ],
        "lesson09": [
            persistent(),
            *(persistent(*knobs) for knobs in rasters),
            persistent(switch="off"),
            persistent(serpentine="on"),
            persistent(tile="256x128"),
            persistent("m", 2, serpentine="on", tile="256x128"),
            persistent(epilogue="plain"),
            persistent(switch="off", epilogue="plain"),
            persistent(serpentine="on", tile="256x128", epilogue="plain"),
        ],
        "lesson10": [multicast(), *(multicast(*knobs) for knobs in clusters)],
        "lesson11": [stream_k(), *(stream_k(*knobs) for knobs in splits)],
        "lesson13": [fused(), *fusions],
        "lesson14": [training(), *steps],
        "lesson15": [*fp8_scalings()],
    }


def cases_of(default, *others):
    """With the default knobs each k-tile count in each form; with the other values of the knobs
    some counts, each in another form. K has a tail every second time."""
    forms = itertools.cycle(FORMS)
    tails = itertools.cycle((0, 7))

    def case(config, k_tiles, form, in_sample):
        flags = flags_of(config, form, k_tiles, next(tails))
        return Case(config.lesson, flags, in_sample)

    for number, k_tiles in enumerate([*k_tile_counts(default.stages), *default.k_tiles]):
        sampled = FORMS[4 * number % len(FORMS)]
        for form in FORMS:
            yield case(default, k_tiles, form, form == sampled)
    for number, config in enumerate(others):
        counts = sorted({1, config.stages + 1, 2 * config.stages + 1, *config.k_tiles})
        for i, k_tiles in enumerate(counts):
            in_sample = i == (number + number // 3) % len(counts)  # by and by, each form
            yield case(config, k_tiles, next(forms), in_sample)


GROUPED_SETTINGS = [
    {"tile": tile, "order": order}
    for tile in ("128x128", "64x256")
    for order in ("weights", "list")
]
# Around the 32 groups that the search looks at in a step.
GROUP_COUNTS = (1, 31, 32, 33, 64, 65, 257, 1000)


def repeated(sizes):
    """The value of --groups for sizes such as "128x128x64", neighbours that are alike in one."""
    runs = [(size, len(list(run))) for size, run in itertools.groupby(sizes)]
    return ",".join(f"{size}*{times}" if times > 1 else size for size, times in runs)


def groups_with_empties(count):
    """Groups of one tile, without rows at both ends and where the steps of the search meet. With
    --init ones, D of group g is 64 * (g % 127 + 1), exactly."""
    empty = {0, 31, 32, 33, count - 1} if count > 1 else set()
    return repeated("0x128x64" if g in empty else "128x128x64" for g in range(count))


def group_lists():
    """Lists of problems and what belongs to them, as flags."""
    ones = ("--init", "ones")
    many = (*ones, "--weights", 5, "--timeout", 200)
    counts = [(groups_with_empties(count), many) for count in GROUP_COUNTS]
    rings = [
        (repeated(f"100x100x{max(64 * k_tiles - 7, 0)}" for k_tiles in k_tile_counts(stages)), ())
        for stages in (4, 6)
    ]
    others = [
        # Without rows, without columns, K = 0: nothing may be described, nothing left over.
        ("0x128x0,128x128x64*2,0x128x64,0x128x0,256x128x0,0x128x64", ()),
        ("128x0x64,300x128x0,128x128x200,40x256x0,0x0x0", ()),
        ("200x264x0*3", ()),
        # More rows than a tile, one row and many columns: a tile has rows of one group only.
        ("128x128x64,130x128x64,65x128x64", ones),
        ("1x2560x200,8x8x8", ()),
        # N no multiple of 8, K no multiple of 8, one element.
        ("129x136x72,7x9x65,1x1x1,35x79x19,4x33x64,65x63x63,127x257x191", ()),
        # Maps that change from tile to tile, launch after launch.
        ("128x128x64*64", (*ones, "--soak", 10)),
        ("ragged-small", ("--soak", 3)),
        ("uniform", ()),
        ("ragged-large", ()),
        ("100x200x128*9", ("--weights", 2)),
    ]
    return [("--groups", text, *flags) for text, flags in counts + rings + others]


def grouped_cases():
    """Each list with each tile, each order and each use of C; the sample has each list once."""
    scales = [(), ("--beta", 1), ("--alpha", -0.5, "--beta", 2), ("--alpha", 0, "--beta", 2)]
    settings = [Config("lesson12", knobs, tile_of(knobs["tile"])) for knobs in GROUPED_SETTINGS]
    for number, groups in enumerate(group_lists()):
        for i, config in enumerate(settings):
            for j, scale in enumerate(scales):
                in_sample = (i, j) == (number % len(settings), (number // 2) % len(scales))
                yield Case(config.lesson, (*config.flags, *groups, *scale), in_sample)


# Lesson 16: M, N. One tile and less, N no multiple of 8, one column; several panels for a team, more
# teams than one, rows of more tiles than SMs, of which some CTAs have one more than others.
ROW_SHAPES = [
    (128, 256), (71, 201), (379, 256), (128, 765), (65, 1264), (5, 1), (383, 767),
    (119, 492), (751, 216), (300, 2100), (700, 520), (130, 1025),
]  # fmt: skip
ROW_MODES = [("--mode", "softmax")] + [
    ("--mode", "topk", "--top", top) for top in (1, 2, 3, 4, 5, 6, 7, 8)
]
# Logits in the thousands, equal logits, infinite ones: NaN rows, and -inf beside numbers.
ROW_FLAGS = [
    (),
    ("--alpha", 250),
    ("--init", "index"),
    ("--alpha", -0.5, "--init", "index"),
    ("--alpha", 0),
    ("--init", "ones"),
    ("--soak", 2),
    ("--alpha", "3e38", "--init", "index"),
    ("--alpha", "1e37"),
    ("--ldd", 2128),
    ("--alpha", -250, "--init", "uniform"),
]


def row_cases():
    """Softmax: each k-tile count with each shape; top-k: each value of --top with each shape. The
    other flags and the tails of K in turn: 11 and 5 of them, so that each shape meets all."""
    flags = itertools.cycle(ROW_FLAGS)
    tails = itertools.cycle((0, 7, 0, 63, 1))
    counts = k_tile_counts(stages=4)

    def case(mode, k_tiles, shape, in_sample):
        m, n = shape
        size = ("--m", m, "--n", n, "--k", max(0, k_tiles * TILE_K - next(tails)))
        return Case("lesson16", (*mode, *size, *next(flags)), in_sample)

    softmax, *tops = ROW_MODES
    for i, k_tiles in enumerate(counts):
        for j, shape in enumerate(ROW_SHAPES):
            yield case(softmax, k_tiles, shape, j == 5 * i % len(ROW_SHAPES))
    for i, mode in enumerate(tops):
        for j, shape in enumerate(ROW_SHAPES):
            if mode[-1] <= shape[1]:
                k_tiles = counts[(i + j) % len(counts)]
                yield case(mode, k_tiles, shape, j == (5 * i + 3) % len(ROW_SHAPES))


def cases():
    """All cases of all lessons."""
    plain = [case for own in configs().values() for case in cases_of(*own)]
    return plain + list(grouped_cases()) + list(row_cases())
