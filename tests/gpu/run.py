"""Tests that need a Hopper GPU: every lesson as a user runs it.

Runs the built lessons as processes, several at a time, and ends with `N passed, N failed`.
Usage: python3 tests/gpu/run.py [--only TEXT ...] [--report FILE] [--jobs N]
"""

import argparse
import concurrent.futures
import dataclasses
import functools
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lessons"))

import broken
import sweep as emulator_sweep

LESSONS = sorted(path.stem.split("_")[0] for path in (ROOT / "lessons").glob("lesson*.cu"))
# Lesson 12 takes lists of problems, no shape: it has cases of its own.
SHAPED_LESSONS = [lesson for lesson in LESSONS if lesson != "lesson12"]
# Lesson 16 has no C.
GEMM_LESSONS = [lesson for lesson in SHAPED_LESSONS if lesson not in ("lesson00", "lesson16")]

# Tails, edges and tile multiples; the sizes that the issues name are among them.
SHAPES = [
    (128, 128, 128), (129, 136, 72), (1, 8, 8), (7, 9, 65), (1, 1, 1), (35, 79, 19), (4, 33, 64),
    (128, 104, 64), (256, 128, 64), (64, 64, 64), (65, 63, 63), (127, 257, 191), (128, 128, 8),
    (1000, 1064, 520), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 1024, 8192),
    (64, 64, 100003), (1638, 1638, 130),
]
EMPTY = [(0, 128, 64), (128, 0, 64), (128, 128, 0), (129, 136, 0), (0, 0, 0)]


@dataclasses.dataclass
class Case:
    """One command and what it must do; or a function that returns what is wrong, or nothing."""

    name: str
    command: object
    status: object = 0  # an exit status, or a tuple of those allowed
    says: str = ""  # a regular expression that stdout + stderr must match
    environment: dict = dataclasses.field(default_factory=dict)
    timeout: float = 120
    heavy: bool = False  # gigabytes of memory, or a kernel that hangs: only a few at a time
    alone: bool = False  # a timing: no other case beside it


def shape_flags(m, n, k):
    return ["--m", str(m), "--n", str(n), "--k", str(k)]


def check(lesson, *flags):
    return [f"./{lesson}", "--check-only", *map(str, flags)]


def sweep():
    for lesson in SHAPED_LESSONS:
        for shape in SHAPES:
            large = shape[0] * shape[1] * shape[2] >= 2**33
            yield Case(f"{lesson} {shape}", check(lesson, *shape_flags(*shape)), says="PASS", heavy=large)
        for shape in EMPTY:
            yield Case(f"{lesson} {shape}", check(lesson, *shape_flags(*shape)))
    for lesson in GEMM_LESSONS:
        scaled = ["--alpha", 2, "--beta", 3]
        for shape in [(129, 136, 72), (7, 9, 65), (1000, 1064, 520), (128, 128, 0)]:
            yield Case(f"{lesson} {shape} alpha 2 beta 3",
                       check(lesson, *shape_flags(*shape), *scaled), says="PASS")
        # beta = 0 leaves C full of NaN; alpha = 0 leaves A and B so.
        yield Case(f"{lesson} alpha 0 beta 2",
                   check(lesson, *shape_flags(129, 136, 72), "--alpha", 0, "--beta", 2), says="PASS")
        yield Case(f"{lesson} alpha 0 beta 0",
                   check(lesson, *shape_flags(129, 136, 72), "--alpha", 0), says="PASS")
        for init in ("uniform", "ones", "zeros", "index"):
            yield Case(f"{lesson} init {init}",
                       check(lesson, *shape_flags(200, 264, 136), "--init", init), says="PASS")
        for seed in range(2, 6):
            yield Case(f"{lesson} seed {seed}",
                       check(lesson, *shape_flags(257, 129, 321), "--seed", seed), says="PASS")
        yield Case(f"{lesson} pitches of the user's",
                   check(lesson, *shape_flags(100, 60, 40), "--lda", 64, "--ldb", 48, "--ldd", 72),
                   says="PASS")
        yield Case(f"{lesson} refuses a pitch that is no multiple of 16 bytes",
                   check(lesson, *shape_flags(100, 60, 40), "--lda", 65), status=2, says="lda")
        # D passes 2^31 elements: 64-bit offsets.
        yield Case(f"{lesson} D of 2^31 + 32768 elements",
                   check(lesson, *shape_flags(65537, 32768, 64), "--timeout", 120), says="PASS",
                   timeout=600, heavy=True)
        yield Case(f"{lesson} soak", check(lesson, *shape_flags(640, 776, 200), "--soak", 5000),
                   says="soak", timeout=300)
    for tile in ("64x64", "64x128", "64x256", "128x128"):
        yield Case(f"lesson03 --trace tile {tile}",
                   check("lesson03", *shape_flags(1000, 1064, 520), "--tile", tile,
                         "--trace", "/dev/null"),
                   says="trace .* spans of")


def knobs():
    """Each value of each knob; N is also no multiple of 8, beside a C that is read."""
    for lesson, configs in emulator_sweep.configs().items():
        for config in configs:
            cases = [((1000, 1064, 520), []), ((1000, 1061, 523), ["--beta", 1])]
            if lesson == "lesson11":  # tiles with many contributors
                cases.append(((300, 500, 8200), []))
            for shape, scale in cases:
                yield Case(" ".join([lesson, *config.flags, str(shape), *map(str, scale)]),
                           check(lesson, *config.flags, *shape_flags(*shape), *scale), says="PASS")


def awkward_values():
    """alpha = 0: the activation sees the bias itself, NaN, infinities and huge numbers."""
    for activation in ("none", "relu", "gelu", "gelu-tanh", "silu"):
        for output in ("bf16", "f16", "f32"):
            yield Case(f"lesson13 awkward values {activation} {output}",
                       check("lesson13", *shape_flags(300, 264, 136), "--alpha", 0, "--activation",
                             activation, "--output", output, "--values", "awkward",
                             "--residual", "on"), says="PASS")


def soaks():
    """Lesson 08 with as little to multiply as there is beside its barriers; lesson 11, whose flags
    nobody sets back but its own launches, and whose sums come in one order."""
    for shape in [(4096, 4096, 64), (128, 128, 64)]:
        yield Case(f"lesson08 soak {shape}",
                   check("lesson08", *shape_flags(*shape), "--soak", 10000, "--timeout", 300),
                   says="soak     PASS", timeout=600)
    for launches, shape, split in [(1000, (2176, 2176, 4096), "auto"),
                                   (1000, (640, 776, 4096), "stream-k"),
                                   (1000, (384, 384, 16384), "split-k"),
                                   (200, (2176, 2176, 1024), "hybrid")]:
        yield Case(f"lesson11 soak {shape} {split}",
                   check("lesson11", *shape_flags(*shape), "--split", split, "--soak", launches,
                         "--timeout", 300),
                   says="soak     PASS", timeout=600)
    for flags in ([], ["--bias", "row", "--scalar", "sum"],
                  ["--pass", "forward", "--scalar", "amax"]):
        yield Case(f"lesson14 soak {' '.join(flags)}",
                   check("lesson14", *shape_flags(2100, 1992, 512), *flags, "--soak", 1000,
                         "--timeout", 300),
                   says="soak     PASS", timeout=600)


def grouped():
    """Lesson 12: the lists of the emulator's sweep, each with each tile and order, the named ones
    in full; then what is too large for the emulator, and what only shows now and then."""
    scales = [[], ["--beta", 1], ["--alpha", -0.5, "--beta", 2], ["--alpha", 0, "--beta", 2]]
    for number, groups in enumerate(emulator_sweep.group_lists()):
        for i, knobs in enumerate(emulator_sweep.GROUPED_SETTINGS):
            flags = [*emulator_sweep.knob_flags(knobs), *scales[(number + i) % len(scales)]]
            yield Case(" ".join(map(str, ["lesson12", *groups, *flags])),
                       check("lesson12", *groups, *flags), says="PASS", timeout=300)
    for groups, flags in (("1x24576x1536", []), ("65537x32768x64,128x128x64", []),
                          ("0x2048x1024*60000,128x2048x1024*64", ["--weights", 1])):
        yield Case(f"lesson12 {groups}",
                   check("lesson12", "--groups", groups, *flags, "--timeout", 120), says="PASS",
                   timeout=600, heavy=True)
    yield Case("lesson12 without an element", check("lesson12", "--groups", "0x8x8,8x0x8"),
               says="nothing to launch")
    for tile in ("128x128", "64x256"):
        soaked = {
            "64 groups of a tile": ["--groups", "128x128x64*64", "--init", "ones", "--soak", 200],
            "2048 groups of a tile": ["--groups", "128x128x64*2048", "--init", "ones",
                                      "--soak", 200],
            "ragged-small": ["--groups", "ragged-small", "--soak", 200],
            "ragged-small, beta 1": ["--groups", "ragged-small", "--beta", 1, "--soak", 200],
            "K from 0 to 4096": ["--groups", "300x520x0,200x264x4096,128x128x64,64x256x200*200",
                                 "--soak", 200],
        }
        for name, flags in soaked.items():
            yield Case(f"lesson12 soak {name}, tile {tile}",
                       check("lesson12", *flags, "--tile", tile, "--timeout", 300),
                       says="soak     PASS", timeout=600)
    yield Case("lesson12 --trace",
               check("lesson12", "--groups", "ragged-small", "--trace", "/dev/null"),
               says="trace .* spans of")


def fp8():
    """Lesson 15: large problems in each way to add, the awkward values, and what unpromoted sums of
    one sign lose."""
    for promote in ("never", "1"):
        for shape in [(4096, 4096, 4096), (8192, 8192, 8192)]:
            yield Case(f"lesson15 {shape} promote {promote}",
                       check("lesson15", *shape_flags(*shape), "--promote", promote,
                             "--scale-a", "row", "--scale-b", "column"),
                       says="PASS", timeout=300, heavy=True)
        for types in itertools.product(("e4m3", "e5m2"), repeat=2):
            for output in ([], ["--output", "e4m3", "--blocks", "1x32"],
                           ["--output", "e5m2", "--blocks", "1x128"]):
                yield Case(f"lesson15 awkward {types} promote {promote} {output}",
                           check("lesson15", *shape_flags(300, 500, 700), "--promote", promote,
                                 "--values", "awkward", "--type-a", types[0], "--type-b", types[1],
                                 *output),
                           says="PASS")
    yield Case("lesson15 sums stop at 2^14",
               check("lesson15", *shape_flags(128, 256, 20000), "--init", "ones"), status=1,
               says="got 40704, expected 49656")
    yield Case("lesson15 promoted sums do not stop",
               check("lesson15", *shape_flags(128, 256, 20000), "--init", "ones", "--promote", "1"),
               says="PASS")


def rows():
    """Lesson 16: its sweep on the emulator, whose panels are wider than the emulated SMs; then rows
    of more tiles than a GPU has SMs, sizes too large for the emulator, and many launches."""
    for case in emulator_sweep.row_cases():
        yield Case(str(case), check(case.lesson, *case.flags), says="PASS")
    modes = [["--mode", "softmax"], ["--mode", "topk"], ["--mode", "topk", "--top", 2]]
    for mode in modes:
        for shape in [(300, 34000, 200), (130, 131072, 64), (4096, 14336, 256), (20000, 300, 64)]:
            yield Case(" ".join(["lesson16", *map(str, mode), str(shape)]),
                       check("lesson16", *mode, *shape_flags(*shape), "--timeout", 120),
                       says="PASS", timeout=600, heavy=True)
        for alpha in (0.01, 250):
            yield Case(" ".join(["lesson16", *map(str, mode), "alpha", str(alpha)]),
                       check("lesson16", *mode, *shape_flags(1000, 1061, 523), "--alpha", alpha),
                       says="PASS")
        for init in ("uniform", "ones", "zeros", "index"):
            yield Case(" ".join(["lesson16", *map(str, mode), "init", init]),
                       check("lesson16", *mode, *shape_flags(300, 5000, 136), "--init", init),
                       says="PASS")
        for shape in [(640, 776, 200), (2048, 4096, 64), (300, 34000, 64)]:
            yield Case(" ".join(["lesson16 soak", *map(str, mode), str(shape)]),
                       check("lesson16", *mode, *shape_flags(*shape), "--soak", 1000,
                             "--timeout", 300),
                       says="soak     PASS", timeout=600)
    # D passes 2^31 elements: 64-bit offsets.
    yield Case("lesson16 D of 2^31 + 32768 elements",
               check("lesson16", *shape_flags(65537, 32768, 64), "--timeout", 120), says="PASS",
               timeout=900, heavy=True)
    yield Case("lesson16 refuses more than a row has",
               check("lesson16", "--mode", "topk", *shape_flags(8, 5, 8)), status=2, says="--top")
    for mode in modes[:2]:
        yield Case(" ".join(["lesson16 --trace", *mode]),
                   check("lesson16", *mode, *shape_flags(1000, 1064, 520), "--trace", "/dev/null"),
                   says="trace .* spans of")


def oracle():
    yield Case("cuBLAS against double precision", ["build/check_cublas"], says="PASS", timeout=300)


def wrong_kernels():
    """The seven wrong kernels: the verdict must see each of them."""
    for broken in ("nan-element", "zeros", "constant", "drop-last-k-tile", "first-k-tile-twice",
                   "swap-row-blocks", "skip-column"):
        for size in (256, 2048):
            yield Case(f"lesson01 --break {broken} at {size}",
                       check("lesson01", *shape_flags(size, size, size), "--break", broken),
                       status=1, says="FAIL")


# What an H200 shows of the broken variants from lesson 04 on (plots/data/nvidia-h200/test-gpu.txt).
# The others pass by luck there: that they are broken is for the emulator to say.
FAILS = {
    "lesson07": ["same-rows"],
    "lesson09": ["lost-tiles", "ragged-band", "pack-late", "last-tile-kept"],
    "lesson11": ["contributor-forgotten"],
    "lesson12": ["start-lost", "stale-sums"],
    "lesson13": ["stale-bias", "bias-after-activation"],
    "lesson14": ["padded-rows", "aux-after-activation"],
    "lesson15": ["added-twice", "wide-step", "other-row", "amax-of-output", "amax-of-padding",
                 "lane-blocks"],
    "lesson16": ["padding-counted", "no-max", "last-of-equals"],
}
HANGS = {
    "lesson04": ["empty-count-128"],
    "lesson06": ["greedy-consumer", "producer-keeps"],
    "lesson08": ["no-c-release"],
    "lesson10": ["released-at-home"],
}
# Wrong, a hang or a launch that fails, as it comes.
SHOWS = {
    "lesson04": ["no-phase", "empty-count-1"],
    "lesson05": ["all-lanes-load", "producer-parity", "no-full-wait"],
    "lesson06": ["one-consumer-counted"],
    "lesson07": ["one-consumer-counted", "no-proxy-fence", "no-store-wait", "shared-barrier"],
    "lesson08": ["no-order", "both-first", "no-skip", "early-c-release", "reader-not-counted"],
    "lesson09": ["ring-restart"],
    "lesson10": ["peers-not-counted", "own-slice-expected"],
    "lesson11": ["flag-not-reset"],
    "lesson12": ["plain-copy", "no-acquire", "early-release", "same-k"],
    "lesson13": ["early-c-release", "no-store-fence"],
    "lesson14": ["early-count"],
    "lesson16": ["counter-not-reset", "early-read", "no-barrier-behind-counter"],
}
# Where 4096x4096x2048 shows nothing: more tiles than SMs, rows that are no multiple of the
# swizzle, several contributors to a tile.
SIZES = {
    ("lesson09", "lost-tiles"): (4096, 4096, 320),
    ("lesson09", "ragged-band"): (1152, 1024, 320),
    ("lesson11", "contributor-forgotten"): (128, 256, 2048),
    ("lesson14", "padded-rows"): (600, 300, 576),
    ("lesson15", "amax-of-padding"): (300, 500, 700),
    ("lesson16", "padding-counted"): (600, 600, 100),
    ("lesson16", "no-max"): (600, 600, 100),
    ("lesson16", "last-of-equals"): (600, 600, 100),
}


def problem_of(row):
    """The flags of a broken variant's problem, large enough for 132 SMs: a list of groups comes 64
    times."""
    flags = [flag for flag in row.flags if flag != "--strict"]  # the emulator's
    if row.size:
        return flags + shape_flags(*SIZES.get((row.lesson, row.variant), (4096, 4096, 2048)))
    groups = flags.index("--groups") + 1
    if flags[groups][0].isdigit():
        flags[groups] = ",".join([flags[groups]] * 64)
    return flags


def pipelined_variants():
    """Breaks from lesson 04 on, each ended by the watchdog if it hangs."""
    for row in broken.table():
        if row.lesson < "lesson04":
            continue
        command = check(row.lesson, "--break", row.variant, *problem_of(row), "--timeout", 3)
        if row.variant in FAILS.get(row.lesson, []):
            status, says = 1, "FAIL"
        elif row.variant in HANGS.get(row.lesson, []):
            status, says = 3, "The kernel most likely waits for"
        elif row.variant in SHOWS.get(row.lesson, []):
            status, says = (1, 3), "FAIL|most likely waits|failed on the GPU"
        else:
            status, says = (0, 1, 3), "by luck|FAIL|most likely waits|failed on the GPU"
        yield Case(str(row), command, status=status, says=says, heavy=True)


def broken_variants():
    """Breaks of lessons 02 and 03 that the GPU shows, too. Races may pass by luck there, so they
    are not here."""
    big = shape_flags(1024, 1024, 1024)
    yield Case("lesson02 --break no-swizzle", check("lesson02", *big, "--break", "no-swizzle"),
               status=1, says="FAIL")
    # The last copies may still be on their way when their CTA is gone: the GPU may report that.
    for broken in ("no-full-wait", "no-phase-flip"):
        yield Case(f"lesson03 --break {broken}", check("lesson03", *big, "--break", broken),
                   status=(1, 3), says="FAIL|failed")
    yield Case("lesson03 --break short-expect hangs and says where",
               check("lesson03", *big, "--break", "short-expect", "--timeout", 3), status=3,
               says="most likely waits for `full`", heavy=True)
    yield Case("lesson03 --break long-expect hangs and says where",
               check("lesson03", *big, "--break", "long-expect", "--timeout", 3), status=3,
               says="most likely waits for `full`", heavy=True)


def run_edited_ptx(lesson):
    """The lesson's own PTX, read from a file, is as right; the driver's refusal is in words."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "lesson.ptx"

        def run(*flags):
            return subprocess.run([f"./{lesson}", *flags], cwd=ROOT, capture_output=True, text=True,
                                  timeout=300)

        dumped = run("--dump-ptx", path)
        if dumped.returncode != 0:
            return f"--dump-ptx: exit status {dumped.returncode}: {dumped.stderr}"
        read = run("--check-only", "--ptx", path)
        if read.returncode != 0 or "PASS" not in read.stdout:
            return f"its own PTX: exit status {read.returncode}: {read.stdout}{read.stderr}"
        path.write_text(path.read_text().replace("mbarrier.init", "mbarrier.initialize", 1))
        refused = run("--check-only", "--ptx", path)
        if refused.returncode != 2 or "the driver does not take this PTX" not in refused.stderr:
            return f"a syntax error: exit status {refused.returncode}: {refused.stderr}"
    return ""


def edited_ptx():
    for lesson in ("lesson03", "lesson08"):
        yield Case(f"{lesson} --ptx", functools.partial(run_edited_ptx, lesson))


def failures():
    """A run that cannot happen ends in words and never in PASS."""
    yield Case("no visible device", check("lesson03", "--device", "cuda"), status=3,
               says="CUDA_VISIBLE_DEVICES", environment={"CUDA_VISIBLE_DEVICES": ""})
    yield Case("out of memory", check("lesson03", *shape_flags(1000000, 1000000, 64)), status=3,
               says="memory")
    yield Case("a bad number", check("lesson03", "--m", "8k"), status=2, says="--m")


def sanitizers():
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not os.path.exists(tool):
        print("compute-sanitizer is not on this machine: its cases are left out.")
        return
    problems = [(lesson, str(shape), shape_flags(*shape))
                for lesson in [*GEMM_LESSONS, "lesson16"]
                for shape in ((129, 136, 72), (256, 256, 256))]
    few, ragged = "256x256x256", "129x136x72,0x8x8,7x9x65,128x128x0,256x256x256*3"
    problems += [("lesson12", f"{groups} {tile}", ["--groups", groups, "--tile", tile])
                 for groups in (few, ragged) for tile in ("128x128", "64x256")]
    for name in ("memcheck", "racecheck", "synccheck"):
        for lesson, problem, flags in problems:
            # racecheck does not follow an order through __syncwarp() and the arrival of one lane,
            # which is how lesson 12's queue is handed over (docs/lesson12_grouped.md). In lesson
            # 14 it takes some of the sums of the second consumer's warps for unordered, and not
            # others, across one bar.sync of both consumers' 256 threads; it stands in the SASS
            # between the write and the reads.
            if name == "racecheck" and lesson in ("lesson12", "lesson14"):
                continue
            yield Case(f"{name} {lesson} {problem}",
                       [tool, "--tool", name, "--error-exitcode", "9",
                        *check(lesson, *flags, "--timeout", 300)],
                       says=r"ERROR SUMMARY: 0 errors|0 hazards displayed", timeout=400)


def timings():
    for lesson in GEMM_LESSONS:
        yield Case(f"{lesson} timing",
                   functools.partial(run_timed, lesson, shape_flags(2048, 2048, 2048), 1.5),
                   alone=True)
    # Beside the library's product and a kernel of ours.
    for mode in ("softmax", "topk"):
        yield Case(f"lesson16 timing {mode}",
                   functools.partial(run_timed, "lesson16",
                                     ["--mode", mode, *shape_flags(4096, 4096, 512)], 3),
                   alone=True)
    # The library's grouped call is far from the ceiling.
    for groups in ("uniform", "ragged-small", "ragged-large"):
        yield Case(f"lesson12 timing {groups}",
                   functools.partial(run_timed, "lesson12", ["--groups", groups], 4), alone=True)


def run_timed(lesson, flags, most):
    """A short benchmark: the record is whole, plausible and steady; `most` is the ratio to cuBLAS
    that nobody would believe."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "record.json")
        done = subprocess.run(
            [f"./{lesson}", *flags, "--rounds", "11", "--json", path],
            cwd=ROOT, capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            return f"exit status {done.returncode}: {done.stdout}{done.stderr}"
        record = json.load(open(path))
    lesson_row = record["contenders"][0]
    problem = record["problem"]
    flop = problem.get("flop", 2 * problem["m"] * problem["n"] * problem["k"])
    expected = flop / (lesson_row["ms"] * 1e9)
    if abs(expected - lesson_row["tflops"]) > 0.01 * expected:
        return f"{lesson_row['tflops']} TFLOP/s do not follow from {lesson_row['ms']} ms"
    if not 0 < record["ratio"]["standard"] < most:
        return f"the ratio to cuBLAS is {record['ratio']['standard']}"
    return ""


def run_case(case):
    """Returns (problem or empty text, output)."""
    try:
        if callable(case.command):
            return case.command(), ""
        done = subprocess.run(case.command, cwd=ROOT, capture_output=True, text=True,
                              timeout=case.timeout, env={**os.environ, **case.environment})
    except subprocess.TimeoutExpired:
        return f"did not end within {case.timeout:.0f} s", ""
    output = done.stdout + done.stderr
    allowed = case.status if isinstance(case.status, tuple) else (case.status,)
    if done.returncode not in allowed:
        return f"exit status {done.returncode}, not {case.status}", output
    if case.says and not re.search(case.says, output):
        return f"does not say /{case.says}/", output
    if done.returncode != 0 and "PASS" in output:
        return "says PASS although it failed", output
    return "", output


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[""],
                        help="run the cases whose name contains one of these texts")
    parser.add_argument("--report", help="also write the results to this file")
    parser.add_argument("--jobs", type=int, default=4)
    arguments = parser.parse_args()

    families = (sweep, knobs, awkward_values, soaks, grouped, fp8, rows, oracle, wrong_kernels,
                broken_variants, pipelined_variants, edited_ptx, failures, sanitizers, timings)
    cases = [case for family in families for case in family()
             if any(text in case.name for text in arguments.only)]
    # Written as the results come: what was seen stays when the run is cut short.
    report = open(arguments.report or os.devnull, "w")
    failed = 0

    def note(line):
        print(line, file=report, flush=True)

    def finish(case, problem, output, seconds):
        nonlocal failed
        if problem:
            failed += 1
            text = f"FAILED {case.name}: {problem}\n"
            if not callable(case.command):
                text += f"  {' '.join(case.command)}\n"
            text += "".join(f"  | {line}\n" for line in output.splitlines()[-15:])
            print(text, end="")
            note(text.rstrip())
        else:
            # Of several ways to pass, which one it was.
            said = re.search(case.says, output)[0] if "|" in case.says else ""
            note(f"passed {case.name} ({seconds:.1f} s){': ' if said else ''}{said}")

    def timed_run(case):
        start = time.monotonic()
        problem, output = run_case(case)
        return case, problem, output, time.monotonic() - start

    # The longest first, so that none is left over at the end.
    cases.sort(key=lambda case: -case.timeout)
    heavy_jobs = max(arguments.jobs // 4, 1)
    with (concurrent.futures.ThreadPoolExecutor(heavy_jobs) as heavy_pool,
          concurrent.futures.ThreadPoolExecutor(max(arguments.jobs - heavy_jobs, 1)) as pool):
        running = [(heavy_pool if case.heavy else pool).submit(timed_run, case)
                   for case in cases if not case.alone]
        for result in running:
            finish(*result.result())
    for case in cases:
        if case.alone:
            finish(*timed_run(case))

    summary = f"{len(cases) - failed} passed, {failed} failed"
    note(summary)
    report.close()
    print(summary)
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
