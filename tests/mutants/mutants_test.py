"""A sample of the mutants of each kernel, and how mutants are made, listed and judged."""

import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.append(str(pathlib.Path(__file__).parent))

import kernels  # noqa: E402
import mutations  # noqa: E402
import ptx  # noqa: E402
import run  # noqa: E402
import survivors  # noqa: E402
import tables  # noqa: E402
import trial  # noqa: E402

TEXT = """\
.version 9.0
.target sm_90a
.visible .entry first(
	.param .u64 first_param_0
)
.maxntid 256, 2, 1
{
	.reg .b32 %r<9>;
	.loc	1 12 3
	mov.u32 	%r1, full;
	// bar.sync 1; in a comment
	@!%p1 BODY
	.loc	2 20 3, function_name $L__info_string0, inlined_at 1 13 7
	{
.reg .pred done;
mbarrier.try_wait.parity.shared::cta.b64 done, [%r1+8], %r2;
}
	ret;
}
	// .globl second
.entry second()
{
	trap;
}
	.file	1 "/elsewhere/tests/mutants/mutants_test.py"
	.file	2 "/elsewhere/common/ptx/mbarrier.cuh"
"""


def changes(instruction):
    """Mutations of `instruction`, with what stands in its place."""
    text = TEXT.replace("BODY", instruction)
    before, after = TEXT.split("\t@!%p1 BODY")
    return {
        mutant.mutation: mutant.text.removeprefix(before).removesuffix(after).strip()
        for mutant in mutations.mutants(text)
        if mutant.opcode != "mbarrier.try_wait.parity.shared::cta.b64"
    }


class Ptx(unittest.TestCase):
    def test_other_entries_are_left_out(self):
        module = ptx.Module(TEXT)
        first = module.with_entries(["first"])
        self.assertIn("mbarrier.try_wait", first)
        self.assertNotIn("second()", first)
        self.assertIn('.file	2 "/elsewhere/common/ptx/mbarrier.cuh"', first)
        self.assertNotIn(".entry", module.with_entries([]))

    def test_an_instruction_knows_its_cuda_line_in_the_file_of_its_kernel(self):
        lines = pathlib.Path(__file__).read_text(encoding="utf-8").splitlines()
        found = {each.opcode: each for each in ptx.Module(TEXT).instructions()}
        self.assertEqual(found["mov.u32"].source, lines[11].strip())
        wait = found["mbarrier.try_wait.parity.shared::cta.b64"]
        self.assertEqual(wait.source, lines[12].strip())
        self.assertEqual(wait.operands, ("done", "[%r1+8]", "%r2"))
        self.assertNotIn("bar.sync", found)

    def test_an_instruction_of_a_function_that_is_called_from_another_file(self):
        # bar.sync stands at 3:7, in a function that file 2 calls at 2:5, in one that line 12 calls.
        text = TEXT.replace(
            "@!%p1 BODY",
            ".loc	2 5 3, function_name $L__info_string0, inlined_at 1 12 3\n"
            "\t.loc	3 7 3, function_name $L__info_string1, inlined_at 2 5 3\n\tbar.sync 0;\n"
            "\t.loc	1 13 3\n\tmov.u32 %r1, full;\n"
            "\t.loc	3 7 3, function_name $L__info_string1, inlined_at 2 5 3\n\tbar.sync 0;",
        )
        lines = pathlib.Path(__file__).read_text(encoding="utf-8").splitlines()
        found = [each for each in ptx.Module(text).instructions() if each.opcode == "bar.sync"]
        self.assertEqual([each.source for each in found], [lines[11].strip()] * 2)

    def test_the_roles_of_a_fused_kernel_are_its_own_file(self):
        path = pathlib.Path(__file__).parents[2] / ptx._ROLES
        number, line = next(
            (number, line)
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
            if "fence_mbarrier_init" in line
        )
        text = TEXT.replace("/elsewhere/common/ptx/mbarrier.cuh", f"/elsewhere/{ptx._ROLES}")
        text = text.replace(".loc\t2 20 3", f".loc\t2 {number} 3")
        found = {each.opcode: each for each in ptx.Module(text).instructions()}
        wait = found["mbarrier.try_wait.parity.shared::cta.b64"]
        self.assertEqual(wait.source, line.strip())

    def test_a_checkout_below_a_folder_with_the_name_of_one_of_ours(self):
        line = ptx._source_line("/home/tests/copy/tests/kernels/ring.cu", 2)
        self.assertEqual(line, '#include "tests/kernels/ring.cuh"')

    def test_the_threads_of_a_cta(self):
        threads = {each.opcode: each.threads for each in ptx.Module(TEXT).instructions()}
        self.assertEqual((threads["ret"], threads["trap"]), (512, None))


class Mutations(unittest.TestCase):
    def test_what_becomes_of_each_instruction(self):
        for instruction, expected in [
            ("fence.mbarrier_init.release.cluster;", {"delete": ""}),
            (
                "mbarrier.init.shared::cta.b64 [%r1], 4;",
                {
                    "delete": "",
                    "count + 1": "@!%p1 mbarrier.init.shared::cta.b64 [%r1], 5;",
                    "count - 1": "@!%p1 mbarrier.init.shared::cta.b64 [%r1], 3;",
                },
            ),
            (
                "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], %r2;",
                {
                    "delete": "",
                    "bytes + 16": "{ .reg .b32 mutant; add.s32 mutant, %r2, 16; @!%p1 mbarrier"
                    ".arrive.expect_tx.shared::cta.b64 _, [%r1], mutant; }",
                    "bytes - 16": "{ .reg .b32 mutant; add.s32 mutant, %r2, -16; @!%p1 mbarrier"
                    ".arrive.expect_tx.shared::cta.b64 _, [%r1], mutant; }",
                    "relaxed": "@!%p1 mbarrier.arrive.expect_tx.relaxed.cta.shared::cta.b64 _,"
                    " [%r1], %r2;",
                },
            ),
            (
                "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r1];",
                {
                    "delete": "",
                    "count + 1": "@!%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _,"
                    " [%r1], 2;",
                    "relaxed": "@!%p1 mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _,"
                    " [%r1];",
                    "scope cta": "@!%p1 mbarrier.arrive.release.cta.shared::cluster.b64 _, [%r1];",
                },
            ),
            (
                "bar.sync 0;",
                {
                    "delete": "",
                    "id + 1": "@!%p1 bar.sync 1;",
                    "threads + 32": "@!%p1 bar.sync 0, 544;",
                    "threads - 32": "@!%p1 bar.sync 0, 480;",
                },
            ),
            (
                "wgmma.wait_group.sync.aligned 0;",
                {"delete": "", "groups + 1": "@!%p1 wgmma.wait_group.sync.aligned 1;"},
            ),
            (
                "setmaxnreg.dec.sync.aligned.u32 24;",
                {"delete": "", "registers + 8": "@!%p1 setmaxnreg.dec.sync.aligned.u32 32;"},
            ),
            (
                "elect.sync %r3|%p2, -1;",
                {"elect all lanes": "@!%p1 elect.sync %r3|%p2, -1; setp.eq.u32 %p2, 0, 0;"},
            ),
            (
                "atom.acq_rel.gpu.global.inc.u32 %r3, [%rd1], 7;",
                {
                    "relaxed": "@!%p1 atom.relaxed.gpu.global.inc.u32 %r3, [%rd1], 7;",
                    "only acquire": "@!%p1 atom.acquire.gpu.global.inc.u32 %r3, [%rd1], 7;",
                    "only release": "@!%p1 atom.release.gpu.global.inc.u32 %r3, [%rd1], 7;",
                    "scope cta": "@!%p1 atom.acq_rel.cta.global.inc.u32 %r3, [%rd1], 7;",
                },
            ),
            (
                "red.relaxed.gpu.global.add.v4.f32 [%rd1], {%f1, %f2, %f3, %f4};",
                {
                    "scope cta": "@!%p1 red.relaxed.cta.global.add.v4.f32 [%rd1],"
                    " {%f1, %f2, %f3, %f4};",
                },
            ),
            (
                "red.relaxed.gpu.global.add.u32 [%rd1], 1;",
                {
                    "delete": "",
                    "scope cta": "@!%p1 red.relaxed.cta.global.add.u32 [%rd1], 1;",
                },
            ),
            ("ld.global.u32 %r3, [%rd1];", {}),
            ("atom.global.add.f32 %f1, [%rd1], %f2;", {}),
        ]:
            with self.subTest(instruction):
                self.assertEqual(changes(instruction), expected)

    def test_a_wait(self):
        mutants = list(mutations.mutants(TEXT.replace("@!%p1 BODY", "")))
        self.assertEqual([each.mutation for each in mutants], ["delete", "flip parity", "relaxed"])
        self.assertIn("\n setp.eq.u32 done, 0, 0;\n}", mutants[0].text)
        self.assertIn("xor.b32 mutant, %r2, 1;", mutants[1].text)
        self.assertIn("\n trap;\n}", mutants[0].probe)

    def test_instructions_of_one_line_are_numbered(self):
        text = TEXT.replace("@!%p1 BODY", "bar.sync 0;\n\tbar.sync 0;")
        sources = [each.source for each in mutations.mutants(text) if each.mutation == "id + 1"]
        self.assertEqual([source[-3:] for source in sources], [" #1", " #2"])


class Survivors(unittest.TestCase):
    def test_several_patterns_share_an_explanation(self):
        entries = survivors.read(
            "# comment\nring* | bar.sync | id + 1 | *\nlesson* | bar.sync | * | `x[i] * y;`\n"
            "    harmless: One\n    sentence.\n\n* | fence | delete | *\n    gap: Another.\n"
        )
        self.assertEqual([entry.line for entry in entries], [2, 3, 7])
        self.assertEqual(entries[1].explanation, "One sentence.")
        self.assertEqual([entry.kind for entry in entries], ["harmless", "harmless", "gap"])
        name = "lesson03 tile 64x64 | bar.sync | delete | `x[i] * y;`"
        self.assertIs(survivors.find(entries, name), entries[1])
        self.assertIsNone(survivors.find(entries, name + " #1"))

    def test_what_is_no_list(self):
        for text in [
            "ring | bar.sync | delete | *\n",
            "ring | bar.sync | delete | *\n    because: it is so.\n",
            "    harmless: Nothing.\n",
            "ring | bar.sync\n    harmless: Something.\n",
        ]:
            with self.subTest(text), self.assertRaisesRegex(survivors.BadList, "line [12]"):
                survivors.read(text)


class Judgement(unittest.TestCase):
    MUTANT = mutations.Mutant("bar.sync", "delete", "`__syncthreads();`", "", "")

    def judge(self, *runs, entry=None, strict_runs=(), is_reached=True):
        tried = trial.Trial(runs, strict_runs, is_reached)
        return tables.Result(kernels.KERNELS[0], self.MUTANT, tried, entry)

    def test_fates(self):
        right, wrong = trial.Run(True, frozenset()), trial.Run(False, frozenset())
        found = trial.Run(False, frozenset({"E20"}))
        listed = {
            kind: survivors.Entry(7, "*", kind, "So.") for kind in ("harmless", "gap", "unreached")
        }
        for result, fate, trouble in [
            (self.judge(found, found), "caught", None),
            (self.judge(found, right), "caught", None),
            (self.judge(right, right, strict_runs=(found, right)), "caught", None),
            (self.judge(found, entry=listed["gap"]), "caught", "7 lists what is caught .E20."),
            (self.judge(right), "survived", "survived"),
            (self.judge(wrong), "survived", "wrong result"),
            (self.judge(right, entry=listed["harmless"]), "harmless", None),
            (self.judge(right, entry=listed["gap"]), "survived", None),
            (self.judge(wrong, entry=listed["gap"]), "survived", None),
            (self.judge(wrong, entry=listed["harmless"]), "harmless", "calls harmless what"),
            (self.judge(right, is_reached=False), "unreached", "never reached"),
            (self.judge(right, entry=listed["unreached"]), "survived", "says unreached of what is"),
            (self.judge(right, is_reached=False, entry=listed["unreached"]), "unreached", None),
            (self.judge(right, is_reached=False, entry=listed["gap"]), "unreached", "not reached"),
        ]:
            with self.subTest(result=result):
                self.assertEqual(result.fate, fate)
                if trouble is None:
                    self.assertIsNone(run.judge_one(result))
                else:
                    self.assertRegex(run.judge_one(result), trouble)

    def test_an_entry_that_matches_nothing(self):
        entry = survivors.Entry(3, "nothing", "gap", "So.")
        (trouble,) = run.judge([], [entry], is_whole=True)
        self.assertIn("survivors.txt:3 matches no mutant", trouble)
        self.assertEqual(run.judge([], [entry], is_whole=False), [])


    def test_tables_take_the_place_of_those_in_the_page(self):
        results = [self.judge(trial.Run(True, frozenset({"E20", "E03"})))] * 2
        page = (
            "a\n<!-- mutants by kernel -->\n%s<!-- end -->\n"
            "<!-- mutants by mutation -->\n<!-- end -->\nb"
        )
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "page.md"
            for old in ("", "| old |\n"):
                path.write_text(page % old, encoding="utf-8")
                with mock.patch.object(tables, "PAGE", path):
                    tables.write(results)
                text = path.read_text(encoding="utf-8")
                self.assertTrue(text.startswith("a\n<!-- mutants by kernel -->\n| kernel |"))
                self.assertTrue(text.endswith("|\n<!-- end -->\nb"))
                self.assertIn("| all | 2 | 2 | 0 | 0 | 0 | 0 | 0 |\n<!-- end -->\n<!--", text)
                self.assertIn("| `bar` | delete | 2 | 2 | E03 E20 |", text)
                self.assertNotIn("old", text)
            path.write_text("<!-- mutants by kernel -->", encoding="utf-8")
            with mock.patch.object(tables, "PAGE", path), self.assertRaises(ValueError):
                tables.write(results)


class Sample(unittest.TestCase):
    """Some mutants of most kernels; `make mutants` tries all of them."""

    def test_each_is_caught_or_explained_and_each_explanation_has_a_mutant(self):
        entries = survivors.load()
        unused = set(entries)
        for index, kernel in enumerate(kernels.KERNELS):
            bench = trial.Bench(kernel)
            mutants = list(mutations.mutants(bench.text))
            names = [mutant.name(kernel) for mutant in mutants]
            unused -= {survivors.find(entries, name) for name in names}
            self.assertEqual(len(set(names)), len(names), "two mutants have the same name")
            if kernel.share == 0:
                continue
            bench.check()
            first = index % min(kernel.share, len(mutants))
            results = run.try_all(bench, mutants[first :: kernel.share], entries)
            with self.subTest(kernel=kernel.name):
                self.assertTrue(results)
                self.assertEqual(run.judge(results, entries, is_whole=False), [])
        self.assertEqual(unused, set())


if __name__ == "__main__":
    unittest.main()
