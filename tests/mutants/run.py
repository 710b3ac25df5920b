"""Tries out all mutants of all kernels, and holds those that survive against survivors.txt.

    tests/mutants/run.py [--kernel TEXT] [--verbose] [--write]

Exit status: 1 if a mutant survived that the list does not explain, or if a listed one is caught.
"""

import argparse
import concurrent.futures
import sys

import kernels
import mutations
import survivors
import tables
import trial


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--kernel", default="", metavar="TEXT", help="only those whose name has it")
    parser.add_argument("--verbose", action="store_true", help="a line about each mutant")
    parser.add_argument("--write", action="store_true", help="write the tables of docs/emulator.md")
    arguments = parser.parse_args()
    chosen = [kernel for kernel in kernels.KERNELS if arguments.kernel in kernel.name]
    if not chosen:
        parser.error(f"no kernel's name has {arguments.kernel!r} in it")
    if arguments.write and arguments.kernel:
        parser.error("--write is for all kernels")

    entries = survivors.load()
    results = []
    for kernel in chosen:
        bench = trial.Bench(kernel)
        bench.check()
        results += try_all(bench, list(mutations.mutants(bench.text)), entries)
    if arguments.verbose:
        for result in results:
            print(describe(result))
    print(*tables.by_kernel(results), "", *tables.by_mutation(results), sep="\n")
    troubles = judge(results, entries, is_whole=len(chosen) == len(kernels.KERNELS))
    if arguments.write:
        tables.write(results)
    for trouble in troubles:
        print(trouble)
    return 1 if troubles else 0


def try_all(bench, mutants, entries):
    """Results of `mutants` of the kernel on the bench, in their order."""
    kernel = bench.kernel
    with concurrent.futures.ThreadPoolExecutor(trial.WORKERS) as pool:
        trials = pool.map(lambda mutant: bench.try_out(mutant), mutants)
        return [
            tables.Result(kernel, mutant, tried, survivors.find(entries, mutant.name(kernel)))
            for mutant, tried in zip(mutants, trials)
        ]


def describe(result):
    tried, name = result.tried, result.mutant.name(result.kernel)
    if not tried.is_caught:
        what = "not reached" if not tried.is_reached else "silent" if tried.is_right else "WRONG"
        return f"{what}  {name}"
    how = "strict" if tried.is_strict else "caught"
    runs = tried.strict_runs if tried.is_strict else tried.runs
    share = f" in {sum(bool(run.rules) for run in runs)} of {len(runs)}" * tried.depends_on_schedule
    return f"{how}  {name}: {' '.join(sorted(tried.rules))}{share}"


def judge(results, entries, is_whole):
    """Sentences about what the list does not have, or has although it should not."""
    troubles = [trouble for result in results if (trouble := judge_one(result))]
    used = {result.entry for result in results}
    if is_whole:
        troubles += [
            f"survivors.txt:{entry.line} matches no mutant: {entry.pattern}"
            for entry in entries
            if entry not in used
        ]
    return troubles


def judge_one(result):
    tried, entry = result.tried, result.entry
    name, rules = result.mutant.name(result.kernel), " ".join(sorted(result.tried.rules))
    where = entry and f"survivors.txt:{entry.line}"
    if tried.is_caught:
        return entry and f"{where} lists what is caught ({rules}): {name}"
    if not entry:
        what = (
            "is never reached"
            if not tried.is_reached
            else "survived" if tried.is_right else "gives a wrong result and draws no finding"
        )
        return f"survivors.txt does not explain what {what}: {name}"
    if (entry.kind == "unreached") == tried.is_reached:
        is_not = "" if tried.is_reached else " not"
        return f"{where} says {entry.kind} of what is{is_not} reached: {name}"
    if entry.kind == "harmless" and not tried.is_right:
        return f"{where} calls harmless what gives a wrong result: {name}"
    return None


if __name__ == "__main__":
    sys.exit(main())
