"""What make builds, rebuilds, refuses and explains."""

import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from fake_toolkit import ROOT, ProjectTest, make_toolkit, write


def compiled(output):
    """The sources that make says, or would say, it compiles."""
    return sorted(re.findall(r"\b(?:nvcc|g\+\+) +([\w/]+\.(?:cu|cc))", output))


class MakeTest(ProjectTest):
    def setUp(self):
        super().setUp()
        self.nvcc = make_toolkit(self.machine)
        self.log = write(self.temporary / "log", "ptxas info    : Used 8 registers\n")
        write(self.project / "common/device/device.h", "#pragma once\n")
        write(self.project / "common/device/device.cc", '#include "common/device/device.h"\n')
        write(self.project / "common/gemm/problem.h", "#pragma once\nstruct Problem;\n")
        write(
            self.project / "lessons/lesson00_first.cu",
            '#include "common/device/device.h"\nint main() {}\n',
        )
        write(
            self.project / "lessons/lesson01_second.cu",
            '#include "common/device/device.h"\n#include "common/gemm/problem.h"\nint main() {}\n',
        )

    def make(self, *arguments, **settings):
        return self.run_here("make", *arguments, PTXAS_LOG=self.log, **settings)

    def make_well(self, *arguments, **settings):
        result = self.make(*arguments, **settings)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def test_a_lesson_runs_and_holds_its_ptx(self):
        self.make_well("lesson01")
        program = self.project / "lesson01"
        subprocess.run([program], check=True)
        self.assertIn(b"// PTX of lesson01_second\n\0", program.read_bytes())
        self.assertEqual(
            (self.project / "build/lesson01.ptx").read_text(), "// PTX of lesson01_second\n"
        )

    def test_how_a_lesson_is_compiled(self):
        self.make_well("lesson00", CUDAHOSTCXX="/usr/bin/g++")
        arguments = (self.machine / "bin/arguments").read_text()
        self.assertIn("-ccbin /usr/bin/g++ ", arguments)
        self.assertIn("-std=c++20 ", arguments)
        self.assertIn("-gencode arch=compute_90a,code=sm_90a ", arguments)
        self.assertIn("-Wall,-Wextra,-Werror ", arguments)

    def test_only_what_changed_is_compiled(self):
        everything = [
            "common/device/device.cc",
            "lessons/lesson00_first.cu",
            "lessons/lesson01_second.cu",
        ]
        self.assertEqual(compiled(self.make_well("lessons")), everything)
        for changed, expected in [
            (None, []),
            ("lessons/lesson01_second.cu", ["lessons/lesson01_second.cu"]),
            ("common/gemm/problem.h", ["lessons/lesson01_second.cu"]),
            ("common/device/device.cc", ["common/device/device.cc"]),
            ("common/device/device.h", everything),
            ("Makefile", everything),
        ]:
            with self.subTest(changed=changed):
                if changed:
                    os.utime(self.project / changed)
                self.assertEqual(compiled(self.make_well("lessons")), expected)

    def test_another_toolkit_compiles_everything_again(self):
        self.make_well("lesson00")
        other = make_toolkit(self.temporary / "other")
        again = compiled(self.make_well("lesson00", NVCC=other))
        self.assertEqual(again, ["common/device/device.cc", "lessons/lesson00_first.cu"])

    def test_a_warning_of_ptxas_fails_the_build(self):
        for line in (
            "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are"
            " serialized due to insufficient register resources for the wgmma pipeline",
            "ptxas warning : Value of threads per SM is out of range",
            'lessons/lesson00_first.cu(3): warning #177-D: variable "a" is never used',
        ):
            with self.subTest(line=line):
                self.log.write_text(f"ptxas info    : 0 bytes gmem\n{line}\n")
                result = self.make("lesson00")
                self.assertNotEqual(result.returncode, 0)
                self.assertIn(line, result.stderr)
                self.assertIn("A lesson must compile without a warning", result.stderr)
                self.assertFalse((self.project / "lesson00").exists())
                self.assertFalse((self.project / "build/lesson00.o").exists())

    def test_kernels_that_are_there_to_be_warned_about_are_excepted(self):
        excepted = (
            "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are"
            " serialized in function '_ZN4gemm4spillILi2EEEv'"
        )
        write(
            self.project / "tools/ptxas_exceptions.txt",
            "# Kernels that ptxas may warn about.\nspillILi[12]E  it is there to spill\n",
        )
        self.log.write_text(f"{excepted}\n")
        self.make_well("lesson00")
        for line in (excepted.replace("Li2E", "Li3E"), excepted.replace("spill", "fast")):
            with self.subTest(line=line):
                self.log.write_text(f"{excepted}\n{line}\n")
                os.utime(self.project / "lessons/lesson00_first.cu")
                result = self.make("lesson00")
                self.assertNotEqual(result.returncode, 0)
                self.assertIn(line, result.stderr)
                self.assertNotIn(excepted, result.stderr)

    def test_without_exceptions_every_warning_counts(self):
        line = "ptxas warning : Value of threads per SM is out of range"
        self.log.write_text(f"{line}\n")
        write(self.project / "tools/ptxas_exceptions.txt", "# None.\n")
        result = self.make("lesson00")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn(line, result.stderr)

    def test_an_error_of_the_compiler_is_shown(self):
        write(self.project / "lessons/lesson00_first.cu", "int main() { return nothing; }\n")
        result = self.make("lesson00")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("nothing", result.stderr)

    def test_a_lesson_that_does_not_exist(self):
        result = self.make("lesson42")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("There is no lesson 42", result.stderr)

    def test_no_toolkit(self):
        self.nvcc.unlink()
        result = self.make("lesson00")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("There is no CUDA compiler", result.stderr)
        self.make_well("help")
        self.make_well("clean")

    def test_help_lists_every_target(self):
        makefile = (self.project / "Makefile").read_text()
        targets = set(re.search(r"^\.PHONY: (.*)", makefile, re.M)[1].split()) - {"FORCE"}
        listed = re.findall(r"^make (\S+) +\S", self.make_well("help"), re.M)
        self.assertEqual(sorted(listed), sorted(targets | {"lessonNN", "diffNN", "ptxrun"}))

    def test_diff_shows_a_lesson_against_the_one_before_it(self):
        changes = self.make_well("diff01")
        self.assertIn('+#include "common/gemm/problem.h"', changes)
        self.assertNotEqual(self.make("diff00").returncode, 0)

    def test_clean_leaves_the_sources(self):
        before = sorted(self.project.rglob("*"))
        self.make_well("lessons")
        self.make_well("clean")
        self.assertEqual(sorted(self.project.rglob("*")), before)


class ThisTreeTest(unittest.TestCase):
    """The same with the real compiler, whose list of headers decides what is compiled again."""

    def setUp(self):
        self.assertEqual(self.would_compile("Nothing"), [], "run `make lessons` before this test")

    def would_compile(self, changed):
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("MAKE", "MFLAGS"))
        }
        output = subprocess.run(
            ["make", "-n", "lessons", "-W", changed],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
        return [source for source in compiled(output) if source.startswith("lessons/")]

    def test_a_lesson(self):
        for path in sorted((ROOT / "lessons").glob("lesson*.cu")):
            source = str(path.relative_to(ROOT))
            self.assertEqual(self.would_compile(source), [source])

    def test_a_header_of_every_lesson(self):
        lessons = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "lessons").glob("*.cu"))
        self.assertEqual(self.would_compile("common/device/device.h"), lessons)


class ExceptionsTest(unittest.TestCase):
    """tools/ptxas_exceptions.txt as it is."""

    def test_each_pattern_is_that_of_a_kernel_that_is_warned_about(self):
        lines = (ROOT / "tools/ptxas_exceptions.txt").read_text().splitlines()
        rows = [line.split(None, 1) for line in lines if not line.startswith("#")]
        self.assertTrue(rows)
        warned = [
            line
            for log in sorted((ROOT / "build").glob("lesson*.ptxas.log"))
            for line in log.read_text().splitlines()
            if re.search(r"\(C75\d\d\)|[Ww]arning", line)
        ]
        for row in rows:
            pattern, reason = row  # each has a reason
            self.assertTrue(reason)
            self.assertTrue([line for line in warned if re.search(pattern, line)], pattern)


class RegisterBudgetTest(unittest.TestCase):
    """A budget of registers that can't be had is an error of the compiler, not a hang."""

    SOURCE = """
        #include "common/gemm/register_budget.h"
        static_assert(gemm::is_possible({%s}, 2, 1), "more than the launch gives the CTA");
    """

    def compile(self, budget):
        return subprocess.run(
            ["g++", "-std=c++20", "-fsyntax-only", "-I", ROOT, "-x", "c++", "-"],
            input=self.SOURCE % budget,
            stderr=subprocess.PIPE,
            text=True,
        )

    def test_a_possible_budget_compiles(self):
        result = self.compile("24, 240")
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_an_impossible_budget_does_not(self):
        for budget in ("32, 240", "24, 248", "16, 240", "24, 236"):
            result = self.compile(budget)
            self.assertNotEqual(result.returncode, 0, budget)
            self.assertIn("more than the launch gives the CTA", result.stderr)

    def test_nor_does_a_lesson_with_one(self):
        toolchain = (ROOT / "build/toolchain.mk").read_text()
        nvcc = re.search(r"^NVCC_PATH := (\S+)", toolchain, re.M)[1]
        source = (ROOT / "lessons/lesson06_setmaxnreg.cu").read_text()
        impossible = source.replace("registers{24, 240}", "registers{32, 240}")
        self.assertNotEqual(impossible, source)
        with tempfile.TemporaryDirectory() as folder:
            path = write(Path(folder) / "lesson06.cu", impossible)
            result = subprocess.run(
                [nvcc, "-std=c++20", "-gencode", "arch=compute_90a,code=sm_90a", "-I", ROOT, "-ptx",
                 path, "-o", f"{folder}/lesson06.ptx"],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )  # fmt: skip
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("The registers that the roles ask for", result.stdout)


if __name__ == "__main__":
    unittest.main()
