"""Measures the ladder: every lesson at several sizes, beside cuBLAS, into one file of records; and
traces those that can be traced.

Usage: python3 tests/gpu/bench.py [--out FOLDER] [--rounds N] [--lessons lesson01 ...]
Writes FOLDER/ladder.jsonl, FOLDER/trace_lessonNN.json and lesson 15's FOLDER/promotion.jsonl, by
default in plots/data/<gpu>; plots and tables read them.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
LESSONS = sorted(path.stem.split("_")[0] for path in (ROOT / "lessons").glob("lesson*.cu"))
SHAPES = [(1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192),
          (8192, 1024, 8192), (4096, 4096, 512)]

ORDERS = [{"raster": raster, "swizzle": swizzle} for raster in ("n", "m")
          for swizzle in (1, 2, 4, 8, 16)]
CLUSTERS = [{"cluster": cluster, "release": release}
            for cluster in ("1x1", "2x1", "1x2", "4x1", "1x4") for release in ("cta", "cluster")
            if (cluster, release) not in (("2x1", "cta"), ("1x1", "cluster"))]
SPLITS = ("auto", "data-parallel", "stream-k", "hybrid", "split-k")

# Lesson 15: fast and precise sums, and one scale for each row and column.
FP8 = [{"promote": promote} for promote in ("1", "2", "4", "8")] + [
    {"promote": promote, "scale-a": "row", "scale-b": "column"} for promote in ("never", "1")]

# What a lesson's knobs are worth, at one size; without the defaults, which SHAPES measures there.
KNOBS = {
    "lesson01": [{"walk": walk, "patch": patch}
                 for walk in ("element", "chunk", "rotated") for patch in ("1x32", "2x16", "4x8")
                 if (walk, patch) != ("rotated", "4x8")],
    "lesson02": [{"tile": tile} for tile in ("64x64", "64x128", "64x256")],
    "lesson03": [{"tile": tile} for tile in ("64x64", "64x128", "64x256")],
    "lesson04": [{"stages": stages} for stages in (1, 3, 4, 5, 6, 7)] +
                [{"stages": stages, "tile": "64x128"} for stages in range(1, 9)],
    "lesson05": [{"stages": stages, "lag": lag} for stages in (2, 3, 4, 6) for lag in range(4)
                 if lag < stages and (stages, lag) != (3, 1)],
    "lesson06": [{"consumers": consumers, "setmaxnreg": setmaxnreg}
                 for consumers in (1, 2, 3) for setmaxnreg in ("on", "off")
                 if (consumers, setmaxnreg) != (2, "on")],
    "lesson07": [{"tile": tile, "band": band}
                 for tile in ("128x256", "256x128") for band in (1, 4, 8, 16)
                 if (tile, band) != ("128x256", 8)],
    "lesson08": [{"tile": tile, "band": band}
                 for tile in ("64x128", "64x256", "128x128", "128x184", "128x200")
                 for band in (1, 4, 8, 16) if (tile, band) != ("128x128", 8)],
    "lesson09": ORDERS + [{"epilogue": "plain"}, {"persistent": "off"}, {"serpentine": "on"},
                          {"tile": "256x128"}],
    "lesson10": CLUSTERS,
    "lesson11": [{"split": split, "groups": groups}
                 for split in ("hybrid", "stream-k") for groups in (1, 2, 4)] +
                [{"split": "data-parallel"}],
    "lesson15": FP8 + [{"promote": promote, "tile": tile} for promote in ("never", "1")
                       for tile in ("128x256", "128x192", "128x128")] +
                [{"output": "e4m3", "scale-d": 8}, {"output": "e4m3", "blocks": "1x32"},
                 {"output": "e4m3", "blocks": "1x128"}],
}
KNOB_SHAPE = (4096, 4096, 4096)
# The tiles that a large problem wants.
LARGE_KNOBS = {
    "lesson06": [{"consumers": consumers} for consumers in (1, 3)],
    "lesson07": [{"band": band} for band in (1, 16)],
    "lesson08": [{"tile": tile} for tile in ("128x184", "128x200")],
    "lesson09": KNOBS["lesson09"],
    "lesson10": KNOBS["lesson10"],
    "lesson15": FP8 + [{"promote": "1", "tile": "128x128"}],
}
LARGE_SHAPE = (8192, 8192, 8192)
# Where an epilogue weighs more or less than at those two.
EPILOGUE_SHAPES = [(2048, 2048, 2048), (4096, 4096, 512), (8192, 1024, 8192)]
# How much there is to multiply beside the epilogue, without C and with it.
K_SWEEP = {"lessons": ("lesson07", "lesson08"), "m": 4096, "n": 4096,
           "k": (64, 128, 256, 512, 1024, 2048, 4096), "beta": (0, 1)}
# Beside SHAPES; the orders and clusters are measured there, too.
MORE_SHAPES = {
    "lesson09": [(16384, 16384, 8192), (4096, 14336, 4096)],
    "lesson10": [(16384, 16384, 8192), (4096, 14336, 4096)],
}
MORE_KNOBS = {
    "lesson09": ORDERS + [{"epilogue": "plain"}],
    "lesson10": [{"cluster": cluster} for cluster in ("1x1", "1x2", "4x1", "1x4")],
}
# Lesson 11: short tails, and fewer tiles than SMs.
TAILS = {
    "shapes": [(2176, 2176, 4096), (1024, 4096, 4096), (128, 8192, 8192), (384, 384, 16384)],
    "knobs": [{"split": split} for split in SPLITS] + [{"split": "hybrid", "groups": 2},
                                                       {"split": "hybrid", "fixup": "atomic"},
                                                       {"split": "split-k", "fixup": "atomic"},
                                                       {"split": "hybrid", "walk": "forwards"}],
}
# Waves of tiles, 128 x 256 each: the last one may be nearly empty.
TILE_COUNTS = {
    "tiles": (66, 99, 131, 132, 133, 150, 165, 198, 231, 264, 265), "n": 256, "k": 4096,
    "knobs": {"lesson09": [{}],
              "lesson11": [{"split": split} for split in ("auto", "data-parallel", "hybrid")]},
}
# How full the last of two waves may be for a cut to pay.
CROSSOVERS = {
    "tiles": (141, 165, 198, 231), "n": 256, "k": (1024, 2048, 8192),
    "knobs": {"lesson11": [{"split": split} for split in ("data-parallel", "hybrid")]},
}
# Lesson 12: the named problems; the same 16,384 tiles in more and more groups; groups without tiles
# in front of those that have some.
GROUPED = {
    "problems": ("uniform", "ragged-small", "ragged-large"),
    "knobs": [{"tile": tile, "order": order}
              for tile in ("128x128", "64x256") for order in ("weights", "list")],
    "rows": 131072, "n": 2048, "k": 1024, "groups": (1, 4, 16, 64, 256, 1024),
    "filled": "128x2048x1024*64", "empties": (0, 1000, 10000, 60000),
}
# Lesson 13: what each operation costs beside the identity, where there is much to multiply and
# where there is little.
FUSED = {
    "shapes": [(4096, 4096, 4096), (8192, 4096, 1024), (4096, 14336, 4096), (4096, 4096, 512)],
    "flags": [["--activation", activation, "--bias", bias]
              for activation, bias in (("none", "none"), ("none", "column"), ("none", "row"),
                                       ("relu", "column"), ("gelu", "column"),
                                       ("gelu-tanh", "column"), ("silu", "column"))] +
             [["--activation", "none", "--bias", "none", "--beta", "1"],
              ["--activation", "gelu", "--bias", "column", "--residual", "on"],
              ["--activation", "gelu", "--bias", "column", "--residual", "on", "--beta", "1"]] +
             [["--activation", "gelu", "--bias", "column", "--output", output]
              for output in ("f16", "f32")],
}
# Lesson 14: the same shapes; gelu-tanh with a column bias is what cuBLASLt fuses, too.
TRAINING_FLAGS = [
    ["--pass", way, "--activation", activation, "--bias", bias]
    for way in ("forward", "backward")
    for activation, bias in (("relu", "column"), ("gelu", "column"), ("gelu-tanh", "column"),
                             ("silu", "column"), ("gelu-tanh", "none"), ("gelu-tanh", "row"))
] + [["--activation", "gelu-tanh", "--sums", "atomic"],
     ["--activation", "gelu-tanh", "--scalar", "sum"]]
# Lesson 16: a vocabulary among the widths; a few experts of a router, one tile wide.
ROWS = {
    "shapes": [(4096, 4096, 4096), (8192, 4096, 1024), (4096, 14336, 4096), (4096, 4096, 512),
               (16384, 256, 4096), (2048, 131072, 1024)],
    "knobs": [{"mode": "softmax"}, *({"mode": "topk", "top": top} for top in (1, 2, 8))],
}
# Several tiles for each SM, few enough k-tiles for a picture.
TRACE_SHAPE = (4096, 4096, 1024)
TRACE_GROUPS = "ragged-small"
# Of lesson 11, tiles that are cut.
TRACE_TAIL = (2176, 2176, 4096)


def knob_flags(knobs):
    return [text for flag, value in knobs.items() for text in (f"--{flag}", str(value))]


def flags_of(m, n, k, knobs=None):
    """A size and knobs, as the command line has them."""
    return ["--m", str(m), "--n", str(n), "--k", str(k), *knob_flags(knobs or {})]


def grouped_runs():
    """The flags of each run of lesson 12."""
    n, k = GROUPED["n"], GROUPED["k"]
    for groups in GROUPED["problems"]:
        for knobs in GROUPED["knobs"]:
            yield ["--groups", groups, *knob_flags(knobs)]
    for count in GROUPED["groups"]:
        yield ["--groups", f"{GROUPED['rows'] // count}x{n}x{k}*{count}", "--weights", "1"]
    for count in GROUPED["empties"]:
        empties = f"0x{n}x{k}*{count}," if count else ""
        yield ["--groups", empties + GROUPED["filled"], "--weights", "1"]


def runs(lesson):
    """The flags of each run of a lesson."""
    if lesson == "lesson00":
        yield []
        return
    if lesson == "lesson12":
        yield from grouped_runs()
        return
    if lesson == "lesson13":
        for shape in FUSED["shapes"]:
            for flags in FUSED["flags"]:
                yield [*flags_of(*shape), *flags]
        return
    if lesson == "lesson14":
        for shape in FUSED["shapes"]:
            for flags in TRAINING_FLAGS:
                yield [*flags_of(*shape), *flags]
        return
    if lesson == "lesson16":
        for shape in ROWS["shapes"]:
            for knobs in ROWS["knobs"]:
                yield flags_of(*shape, knobs)
        return
    for shape in SHAPES + MORE_SHAPES.get(lesson, []):
        yield [*flags_of(*shape), "--baseline", "best"]
    for shape in MORE_SHAPES.get(lesson, []):
        for knobs in MORE_KNOBS.get(lesson, []):
            yield flags_of(*shape, knobs)
    for knobs in KNOBS.get(lesson, []):
        yield flags_of(*KNOB_SHAPE, knobs)
    for knobs in LARGE_KNOBS.get(lesson, []):
        yield [*flags_of(*LARGE_SHAPE, knobs), "--baseline", "best"]
    if lesson == "lesson09":
        for shape in EPILOGUE_SHAPES:
            yield flags_of(*shape, {"epilogue": "plain"})
    if lesson in K_SWEEP["lessons"]:
        m, n = K_SWEEP["m"], K_SWEEP["n"]
        for k in K_SWEEP["k"]:
            for beta in K_SWEEP["beta"]:
                if beta != 0 or (m, n, k) not in SHAPES:
                    yield [*flags_of(m, n, k), "--beta", str(beta)]
    if lesson == "lesson11":
        for shape in TAILS["shapes"]:
            for knobs in TAILS["knobs"]:
                yield flags_of(*shape, knobs)
    for tiles in TILE_COUNTS["tiles"]:
        for knobs in TILE_COUNTS["knobs"].get(lesson, []):
            yield flags_of(128 * tiles, TILE_COUNTS["n"], TILE_COUNTS["k"], knobs)
    for knobs in CROSSOVERS["knobs"].get(lesson, []):
        for k in CROSSOVERS["k"]:
            for tiles in CROSSOVERS["tiles"]:
                yield flags_of(128 * tiles, CROSSOVERS["n"], k, knobs)


def promotion_runs():
    """The flags of lesson 15's runs for the picture of its errors; nothing is timed."""
    for values in ("ordinary", "positive"):
        for promote in ("never", "8", "4", "2", "1"):
            for k in (128 << i for i in range(10)):
                yield [*flags_of(1024, 1024, k, {"promote": promote, "values": values}),
                       "--check-only"]


def run(command, statuses=(0,)):
    """Runs a lesson, shows what it says, and returns whether it ended well."""
    print("$", " ".join(command), flush=True)
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True)
    print(done.stdout, done.stderr, sep="", flush=True)
    if done.returncode not in statuses:
        print(f"{command[0]} ended with status {done.returncode}: nothing was written.")
    return done.returncode in statuses


def has_timeline(lesson):
    help_text = subprocess.run([f"./{lesson}", "--help"], cwd=ROOT, text=True, capture_output=True)
    return "--trace FILE" in help_text.stdout


def trace(lesson, path):
    """Writes the timeline of one SM; an older one stays when that fails."""
    problem = (["--groups", TRACE_GROUPS] if lesson == "lesson12"
               else flags_of(*(TRACE_TAIL if lesson == "lesson11" else TRACE_SHAPE)))
    return run([f"./{lesson}", *problem, "--check-only", "--trace", str(path), "--trace-sms", "1"])


def measure(lesson, rounds):
    """The records of all runs of a lesson, or None if one failed."""
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        record = pathlib.Path(folder) / "record.json"
        for flags in runs(lesson):
            command = [f"./{lesson}", *flags, "--rounds", str(rounds), "--json", str(record)]
            if not run(command):
                return None
            lines.append(record.read_text().strip())
    return lines


def save(lines, path):
    """Puts a lesson's records into the file, in place of those of its last measurement."""
    number = json.loads(lines[0])["lesson"]
    kept = [line for line in (path.read_text().splitlines() if path.exists() else [])
            if json.loads(line)["lesson"] != number]
    lines = sorted(kept + lines, key=lambda line: json.loads(line)["lesson"])
    path.write_text("\n".join(lines) + "\n")
    print(f"{len(lines)} records in {path}, {len(kept)} of them from before", flush=True)


def measure_promotion(path):
    """Writes lesson 15's errors; sums that lose more than the verdict allows are what it shows."""
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        record = pathlib.Path(folder) / "record.json"
        for flags in promotion_runs():
            if not run(["./lesson15", *flags, "--json", str(record)], statuses=(0, 1)):
                return False
            lines.append(record.read_text().strip())
    path.write_text("\n".join(lines) + "\n")
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--lessons", nargs="+", default=LESSONS)
    arguments = parser.parse_args()

    failed = False
    for lesson in arguments.lessons:
        lines = measure(lesson, arguments.rounds)
        if not lines:
            return 1
        gpu = json.loads(lines[-1])["machine"]["gpu"]
        folder = arguments.out or ROOT / "plots" / "data" / re.sub(r"[^a-z0-9]+", "-", gpu.lower())
        folder.mkdir(parents=True, exist_ok=True)
        save(lines, folder / "ladder.jsonl")
        if has_timeline(lesson):
            failed |= not trace(lesson, folder.resolve() / f"trace_{lesson}.json")
        if lesson == "lesson15":
            failed |= not measure_promotion(folder / "promotion.jsonl")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
