"""Measures the ladder: every lesson at several sizes, beside cuBLAS, into one file of records.

Usage: python3 tests/gpu/bench.py [--out FOLDER] [--rounds N] [--lessons lesson01 ...]
Writes FOLDER/ladder.jsonl, by default plots/data/<gpu>/ladder.jsonl; plots and tables read it.
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

# What a lesson's knobs are worth, at one size.
KNOBS = {
    "lesson01": [{"walk": walk, "patch": patch}
                 for walk in ("element", "chunk", "rotated") for patch in ("1x32", "2x16", "4x8")
                 if (walk, patch) != ("rotated", "4x8")],
    "lesson02": [{"tile": tile} for tile in ("64x64", "64x128", "64x256")],
    "lesson03": [{"tile": tile} for tile in ("64x64", "64x128", "64x256")],
}
KNOB_SHAPE = (4096, 4096, 4096)


def runs(lesson):
    """The flags of each run of a lesson."""
    if lesson == "lesson00":
        yield []
        return
    for m, n, k in SHAPES:
        yield ["--m", str(m), "--n", str(n), "--k", str(k), "--baseline", "best"]
    m, n, k = KNOB_SHAPE
    for knobs in KNOBS.get(lesson, []):
        flags = [text for flag, value in knobs.items() for text in (f"--{flag}", str(value))]
        yield ["--m", str(m), "--n", str(n), "--k", str(k), *flags]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--lessons", nargs="+", default=LESSONS)
    arguments = parser.parse_args()

    lines = []
    with tempfile.TemporaryDirectory() as folder:
        record = pathlib.Path(folder) / "record.json"
        for lesson in arguments.lessons:
            for flags in runs(lesson):
                command = [f"./{lesson}", *flags, "--rounds", str(arguments.rounds),
                           "--json", str(record)]
                print("$", " ".join(command[:-2]), flush=True)
                done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True)
                print(done.stdout, done.stderr, sep="", flush=True)
                if done.returncode != 0:
                    print(f"{lesson} ended with status {done.returncode}: nothing was written.")
                    return 1
                lines.append(record.read_text().strip())

    gpu = json.loads(lines[-1])["machine"]["gpu"]
    folder = arguments.out or ROOT / "plots" / "data" / re.sub(r"[^a-z0-9]+", "-", gpu.lower())
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "ladder.jsonl"
    path.write_text("\n".join(lines) + "\n")
    print(f"{len(lines)} records in {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
