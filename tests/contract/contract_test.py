"""Holds what `make lessons` built to contract.txt, and the reading of both to small examples."""

import os
import re
import shutil
import subprocess
import unittest
from pathlib import Path
from typing import NamedTuple

import contract

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
LESSONS = sorted(path.name.split("_")[0] for path in (ROOT / "lessons").glob("lesson*_*.cu"))
TABLE = contract.parse_table((ROOT / "tests/contract/contract.txt").read_text())
SPILLS_MEASURED_WITH = "13.0"  # the CUDA whose figures contract.txt has
NVDISASM = shutil.which("nvdisasm", path=f"{ROOT / '.venv/bin'}{os.pathsep}{os.environ['PATH']}")


class Kernel(NamedTuple):
    lesson: str
    ptx_name: str
    name: str  # as in contract.txt
    usage: contract.Usage

    def rows(self):
        return [row for row in TABLE if row.lesson == self.lesson and row.matches(self.name)]

    def __str__(self):
        return f"{self.lesson}: {self.name}"


class LessonsKeepTheContract(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kernels = []
        for lesson in LESSONS:
            usages = contract.parse_log((BUILD / f"{lesson}.ptxas.log").read_text())
            names = contract.readable_names(usages)
            cls.kernels += [Kernel(lesson, ptx, names[ptx], usages[ptx]) for ptx in usages]

    def assert_none(self, complaints):
        if complaints:
            self.fail("\n".join(complaints))

    def test_every_lesson_has_a_kernel(self):
        self.assertTrue(LESSONS)
        self.assertEqual(sorted({kernel.lesson for kernel in self.kernels}), LESSONS)

    def test_every_kernel_has_one_row(self):
        self.assert_none(
            [
                f"{kernel} matches {len(kernel.rows())} rows of contract.txt"
                for kernel in self.kernels
                if len(kernel.rows()) != 1
            ]
        )

    def test_every_row_has_a_kernel(self):
        found = {row for kernel in self.kernels for row in kernel.rows()}
        self.assert_none(
            [f"{row.lesson} has no {row.pattern}" for row in TABLE if row not in found]
        )

    def test_every_kernel_keeps_its_limits(self):
        toolchain = (BUILD / "toolchain.mk").read_text()
        version = re.search(r"^NVCC_VERSION := (\S+)", toolchain, re.M)[1]
        exact = version == SPILLS_MEASURED_WITH
        self.assert_none(
            [
                f"{kernel} {complaint}"
                for kernel in self.kernels
                for row in kernel.rows()
                for complaint in contract.broken_limits(row, kernel.usage, exact)
            ]
        )

    def test_the_notes_quote_what_is_spilled(self):
        for row in TABLE:
            if row.spills is not None:
                (note,) = (ROOT / "docs").glob(f"{row.lesson}_*.md")
                self.assertIn(f"{row.spills.loads:,} bytes", note.read_text(), row.pattern)

    @unittest.skipUnless(NVDISASM, "there is no nvdisasm; `make setup` installs it")
    def test_every_kernel_has_the_instructions_that_its_lesson_claims(self):
        opcodes = {}
        for lesson in LESSONS:
            disassembly = subprocess.run(
                [NVDISASM, "-c", BUILD / f"{lesson}.cubin"],
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            ).stdout
            opcodes[lesson] = contract.parse_disassembly(disassembly)
        self.assert_none(
            [
                f"{kernel} {complaint}"
                for kernel in self.kernels
                for row in kernel.rows()
                for complaint in contract.broken_claims(
                    row, opcodes[kernel.lesson][kernel.ptx_name]
                )
            ]
        )

    def test_the_embedded_ptx_is_for_sm_90a_alone(self):
        for lesson in LESSONS:
            targets = re.findall(r"^\.target (\S+)", (BUILD / f"{lesson}.ptx").read_text(), re.M)
            self.assertEqual(targets, ["sm_90a"], lesson)


LOG = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN12_GLOBAL__N_14gemmILi64EEEvPf' for 'sm_90a'
ptxas info    : Function properties for _ZN12_GLOBAL__N_14gemmILi64EEEvPf
    16 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 16 bytes stack, 1024 bytes smem
ptxas info    : Compiling entry function '_Z4fillPf' for 'sm_90a'
ptxas info    : Function properties for _Z4fillPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
"""

DISASSEMBLY = """\
.text._Z4fillPf:
        .type           _Z4fillPf,@function
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/               @P0 EXIT ;
        /*0020*/              @!UP0 UIADD3 UR4, UR4, 0x7f, URZ ;
        /*10030*/                  HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8], R24 ;
.text._Z5otherPf:
        /*0000*/                   HFMA2.MMA R1, R1, R1, R1 ;
"""


class TheContractIsRead(unittest.TestCase):
    def row(self, **changes):
        row = contract.Row("lesson00", "fill", 8, 0, None, required=(), forbidden=())
        return row._replace(**changes)

    def test_table(self):
        table = contract.parse_table(
            "# a comment\n\nlesson02 gemm<64,*> 168 1024 - HGMMA,UTMALDG -\n"
            "lesson06 gemm<128> 128 0 16/4/8 - STL\n"
        )
        self.assertEqual(
            table,
            [
                contract.Row("lesson02", "gemm<64,*>", 168, 1024, None, ("HGMMA", "UTMALDG"), ()),
                contract.Row(
                    "lesson06", "gemm<128>", 128, 0, contract.Spills(16, 4, 8), (), ("STL",)
                ),
            ],
        )
        self.assertTrue(table[0].matches("gemm<64,(Break)0>"))
        self.assertFalse(table[0].matches("gemm<128,(Break)0>"))

    def test_a_bad_row_is_named(self):
        for line in (
            "lesson02 gemm 168 1024 - HGMMA",
            "lesson02 gemm many 1024 - HGMMA -",
            "lesson02 gemm 168 1024 HGMMA - -",
            "lesson02 gemm 168 1024 16/4 HGMMA -",
        ):
            with self.assertRaisesRegex(ValueError, "contract.txt:2"):
                contract.parse_table("\n" + line)

    def test_log(self):
        self.assertEqual(
            contract.parse_log(LOG),
            {
                "_ZN12_GLOBAL__N_14gemmILi64EEEvPf": contract.Usage(
                    40, 1024, contract.Spills(16, 4, 8)
                ),
                "_Z4fillPf": contract.Usage(8, 0, contract.Spills(0, 0, 0)),
            },
        )

    def test_a_log_of_another_form_is_refused(self):
        with self.assertRaisesRegex(ValueError, "_Z4fillPf"):
            contract.parse_log("Compiling entry function '_Z4fillPf' for 'sm_90a'\n")

    def test_names(self):
        names = {
            "_Z4fillPf": "fill",
            "_ZN12_GLOBAL__N_14gemmILi64ELNS_5BreakE3EEEvN4gemm7ProblemE": "gemm<64,(Break)3>",
        }
        self.assertEqual(contract.readable_names(names), names)

    def test_disassembly(self):
        self.assertEqual(
            contract.parse_disassembly(DISASSEMBLY),
            {
                "_Z4fillPf": {"LDC", "EXIT", "UIADD3", "HGMMA.64x128x16.F32.BF16"},
                "_Z5otherPf": {"HFMA2.MMA"},
            },
        )

    def test_limits(self):
        usage = contract.Usage(registers=8, shared=0, spills=contract.Spills(0, 0, 0))
        self.assertEqual(contract.broken_limits(self.row(), usage), [])
        for worse in (
            usage._replace(registers=9),
            usage._replace(shared=8),
            usage._replace(spills=contract.Spills(16, 0, 0)),
            usage._replace(spills=contract.Spills(0, 4, 0)),
        ):
            self.assertEqual(len(contract.broken_limits(self.row(), worse)), 1, worse)

    def test_a_kernel_that_is_there_to_spill(self):
        row = self.row(spills=contract.Spills(16, 4, 8))
        usage = contract.Usage(registers=8, shared=0, spills=contract.Spills(16, 4, 8))
        self.assertEqual(contract.broken_limits(row, usage), [])
        more = usage._replace(spills=contract.Spills(16, 4, 12))
        self.assertEqual(len(contract.broken_limits(row, more)), 1)
        self.assertEqual(contract.broken_limits(row, more, exact_spills=False), [])
        none = usage._replace(spills=contract.Spills(0, 0, 0))
        self.assertTrue(contract.broken_limits(row, none))
        self.assertTrue(contract.broken_limits(row, none, exact_spills=False))

    def test_claims(self):
        opcodes = {"HGMMA.64x128x16.F32.BF16", "HFMA2.MMA"}
        self.assertEqual(contract.broken_claims(self.row(required=("HGMMA",)), opcodes), [])
        self.assertEqual(contract.broken_claims(self.row(forbidden=("HMMA",)), opcodes), [])
        self.assertEqual(
            contract.broken_claims(self.row(required=("UTMALDG",)), opcodes), ["has no UTMALDG"]
        )
        self.assertEqual(
            contract.broken_claims(self.row(forbidden=("HGMMA",)), opcodes), ["has HGMMA"]
        )


if __name__ == "__main__":
    unittest.main()
