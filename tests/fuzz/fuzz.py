"""Feeds the emulator with damaged PTX of the kernels: first its parser, then the whole machine.

    tests/fuzz/fuzz.py MINUTES [FIRST]

Half of the time for each. FIRST is the number of the first input, 0 if it is not given: other
numbers are other inputs.
"""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "mutants"))

import kernels  # noqa: E402
import trial  # noqa: E402

FOLDER = ROOT / "build" / "fuzz"
LAST_INPUT = FOLDER / "last_input"  # of machine_fuzz, for a crash that leaves no word
SIZES = ((72, 40, 200),)
# As the workbench (tests/emulator/workbench.h) names them, and where their PTX is.
SEEDS = (
    ("gemm_naive<(Walk)2, 4>", "lesson01"),
    ("gemm_wgmma<64, 64>", "lesson02"),
    ("gemm_tma<64, 64>", "lesson03"),
    ("ring<1, 2>", "tests/kernels/ring"),
    ("ring<2, 3>", "tests/kernels/ring"),
    ("multicast<2>", "tests/kernels/multicast"),
    ("split_k<false>", "tests/kernels/split_k"),
    ("split_k<true>", "tests/kernels/split_k"),
)


def write_seed(number, name, ptx):
    """The PTX of the one entry that the kernel runs, and where it is."""
    kernel = kernels.Kernel(name, ("build/run_kernel", name), f"build/{ptx}.ptx", SIZES)
    path = FOLDER / f"seed{number}.ptx"
    path.write_text(trial.Bench(kernel).text, encoding="utf-8")
    return path


def main(minutes, first="0"):
    FOLDER.mkdir(parents=True, exist_ok=True)
    paths = [str(write_seed(number, *seed)) for number, seed in enumerate(SEEDS)]
    pairs = [word for (name, _), path in zip(SEEDS, paths) for word in (name, path)]
    seconds = str(float(minutes) * 30)
    commands = [
        [FOLDER / "parser_fuzz", seconds, first, *paths],
        [FOLDER / "machine_fuzz", seconds, first, *pairs],
    ]
    failed = False
    for command in commands:
        LAST_INPUT.unlink(missing_ok=True)
        failed |= subprocess.run(command, cwd=ROOT).returncode != 0
        if failed and LAST_INPUT.exists():
            print(f"The machine's last input was number {LAST_INPUT.read_text()}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
