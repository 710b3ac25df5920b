"""Every lesson on the emulator, as a user runs it: right kernels are right and draw no finding,
broken ones are caught as broken.txt says. check.py --whole does the same under 22 schedules."""

import re
import subprocess
import unittest

import broken
import check
import emulated
import sweep


class LessonsTest(unittest.TestCase):
    def assert_none(self, complaints):
        if complaints:
            self.fail("\n".join(complaints))

    def test_right_kernels_are_right_and_draw_no_finding(self):
        with check.workers() as pool:
            for lesson in emulated.GEMM_LESSONS:
                with self.subTest(lesson=lesson):
                    outcomes = check.run_sweep(pool, check.sample_of_sweep(lesson))
                    self.assertTrue(outcomes)
                    self.assert_none(
                        [
                            f"{outcome.command}: {outcome.trouble}\n{outcome.output}"
                            for outcome in outcomes
                            if not outcome.is_right
                        ]
                    )

    def test_broken_variants_are_caught_by_their_rule(self):
        with check.workers() as pool:
            runs = check.run_broken(pool, broken.table(), emulated.SAMPLE)
        for row, outcomes in runs.items():
            with self.subTest(row=str(row)):
                self.assert_none(broken.complaints(row, outcomes))

    def test_the_table_has_each_variant_once(self):
        rows = [(row.lesson, row.variant) for row in broken.table()]
        listed = [
            (lesson, variant)
            for lesson in emulated.GEMM_LESSONS
            for variant in re.findall(r"^  (\S+)", self.answer(lesson, "--list-breaks"), re.M)
        ]
        self.assertEqual(sorted(rows), sorted(listed))

    def test_the_sweep_has_each_value_of_each_knob(self):
        for lesson in emulated.GEMM_LESSONS:
            swept = [case for case in sweep.cases() if case.lesson == lesson]
            sampled = [case for case in swept if case.in_sample]
            knobs = re.findall(r"^  --(\S+) (\S+\|\S+)", self.answer(lesson, "--help"), re.M)
            shared = {"init", "device", "schedule", "baseline"}
            own = [(knob, value) for knob, list_ in knobs for value in list_.split("|")]
            # In capitals is what a user writes something in place of.
            own = [(knob, value) for knob, value in own if knob not in shared and not value.isupper()]
            self.assertTrue(own, lesson)
            for cases in (swept, sampled):
                for knob, value in own:
                    with self.subTest(lesson=lesson, knob=knob, value=value):
                        settings = [
                            str(case.flags[case.flags.index(f"--{knob}") + 1])
                            for case in cases
                            if f"--{knob}" in case.flags
                        ]
                        self.assertIn(value, settings)

    def test_each_activation_takes_awkward_values(self):
        """alpha = 0: it sees the bias itself."""
        for activation in ("none", "relu", "gelu", "gelu-tanh", "silu"):
            with self.subTest(activation=activation):
                flags = ["--alpha", 0, "--values", "awkward", "--m", 70, "--n", 70, "--k", 64]
                flags += ["--activation", activation, "--output", "f32"]
                outcome = emulated.run("lesson13", flags, emulated.WHOLE[0])
                self.assertTrue(outcome.is_right, outcome.trouble + outcome.output)

    def answer(self, lesson, flag):
        return subprocess.run(
            [emulated.ROOT / lesson, flag], stdout=subprocess.PIPE, text=True, check=True
        ).stdout


class SweepTest(unittest.TestCase):
    def test_k_tiles_stand_around_the_laps_of_the_ring(self):
        self.assertEqual(sweep.k_tile_counts(1), [0, 1, 2, 3, 9])
        self.assertEqual(sweep.k_tile_counts(3), [0, 1, 2, 3, 4, 7, 9])
        self.assertEqual(sweep.k_tile_counts(6), [0, 1, 2, 5, 6, 7, 9, 13])

    def test_flags(self):
        config = sweep.Config("lesson04", {"stages": 3}, (128, 128), 3)
        form = sweep.Form(tiles=(2, 1), tails=(1, 5), flags=("--beta", 2), pitched=True)
        self.assertEqual(
            " ".join(map(str, sweep.flags_of(config, form, k_tiles=2, k_tail=7))),
            "--stages 3 --m 255 --n 123 --k 121 --beta 2 --lda 136 --ldb 144 --ldc 136 --ldd 136",
        )

    def test_groups_have_empties_where_the_steps_of_the_search_meet(self):
        self.assertEqual(sweep.groups_with_empties(1), "128x128x64")
        self.assertEqual(
            sweep.groups_with_empties(33),
            "0x128x64,128x128x64*30,0x128x64*2",
        )
        self.assertEqual(
            sweep.groups_with_empties(65),
            "0x128x64,128x128x64*30,0x128x64*3,128x128x64*30,0x128x64",
        )

    def test_every_list_of_groups_is_met_with_every_setting(self):
        cases = list(sweep.grouped_cases())
        self.assertEqual(len(cases), 4 * 4 * len(sweep.group_lists()))
        self.assertEqual(len(set(cases)), len(cases))
        self.assertEqual(sum(case.in_sample for case in cases), len(sweep.group_lists()))

    def test_every_shape_of_rows_is_met_in_every_mode(self):
        cases = list(sweep.row_cases())
        self.assertEqual(len(set(cases)), len(cases))
        for m, n in sweep.ROW_SHAPES:
            modes = {
                case.flags[: case.flags.index("--m")]
                for case in cases
                if case.flags[case.flags.index("--m") + 1 :][:3] == (m, "--n", n)
            }
            fitting = [mode for mode in sweep.ROW_MODES if mode[-1] == "softmax" or mode[-1] <= n]
            self.assertEqual(modes, set(fitting), (m, n))
        for flags in sweep.ROW_FLAGS:
            met = [case for case in cases if not flags or case.flags[-len(flags) :] == flags]
            self.assertTrue(met, flags)

    def test_every_form_is_met_by_every_lesson(self):
        for lesson in emulated.GEMM_LESSONS:
            if lesson == "lesson16":  # has no C
                continue
            cases = [case for case in sweep.cases() if case.lesson == lesson]
            # A list of problems has no pitches of the user's.
            pitches = () if lesson == "lesson12" else ("--lda",)
            for flag in ("--beta", "--alpha", *pitches):
                self.assertTrue([case for case in cases if flag in case.flags], lesson)
            self.assertTrue([case for case in cases if "--alpha" in case.flags and 0 in case.flags])


def outcome(status=1, wrong=0, hazards=0, findings=(), trouble=""):
    return emulated.Outcome("command", status, wrong, hazards, tuple(findings), "", trouble)


class BrokenTableTest(unittest.TestCase):
    FINDING = emulated.Finding("phase-aba", "a.cu:1", "waits for phase 0 of `full[0]`")

    def row(self, rule="phase-aba", names="phase 0 of `full[0]`", every=True):
        return broken.Row("lesson04", "no-phase", (8, 8, 8), (), rule, names, every)

    def test_table(self):
        table = broken.parse(
            "# a comment\n\nlesson04 | a | 8x16x24 | --strict | phase-aba | `full` | every\n"
            "lesson05 | b | 8x16x24 | | numbers | | caught\n"
        )
        size = (8, 16, 24)
        self.assertEqual(
            table,
            [
                broken.Row("lesson04", "a", size, ("--strict",), "phase-aba", "`full`", True),
                broken.Row("lesson05", "b", size, (), "numbers", "", False),
            ],
        )
        self.assertEqual(
            " ".join(map(str, table[0].command_line)), "--break a --strict --m 8 --n 16 --k 24"
        )
        (row,) = broken.parse("lesson12 | c | - | --groups 8x8x8*9 | numbers | | every\n")
        self.assertEqual(" ".join(row.command_line), "--break c --groups 8x8x8*9")
        for line in (
            "lesson04 | a | 8x8x8 | | phase-aba | `full`",
            "lesson04 | a | 8x8x8 | | phase-aba | `full` | often",
            "lesson04 | a | 8x8x8 | | phase-aba | | every",
            "lesson04 | a | 8x8x8 | | numbers | `full` | every",
            "lesson04 | a | 8x8 | | numbers | | every",
            "lesson04 | a | - | --strict | numbers | | every",
        ):
            with self.assertRaisesRegex(ValueError, "broken.txt:2"):
                broken.parse("\n" + line)

    def test_what_is_caught(self):
        caught = outcome(hazards=1, findings=[self.FINDING])
        self.assertEqual(broken.complaints(self.row(), [caught]), [])
        self.assertEqual(broken.complaints(self.row(names="a.cu:1"), [caught]), [])
        wrong = outcome(wrong=3)
        self.assertEqual(broken.complaints(self.row("numbers", ""), [wrong]), [])
        other = outcome(hazards=1, findings=[self.FINDING._replace(rule="deadlock")])
        self.assertEqual(broken.complaints(self.row(every=False), [caught, other]), [])

    def test_what_is_not_caught(self):
        caught = outcome(hazards=1, findings=[self.FINDING])
        other = outcome(hazards=1, findings=[self.FINDING._replace(rule="deadlock")])
        unnamed = outcome(hazards=1, findings=[self.FINDING._replace(sentence="waits")])
        wrong = outcome(wrong=3)
        for row, outcomes in (
            (self.row(), [caught, outcome(status=0)]),
            (self.row(), [caught, other]),
            (self.row(), [caught, unnamed]),
            (self.row(every=False), [other, unnamed]),
            (self.row(every=False), [caught, outcome(status=0)]),
            (self.row("numbers", ""), [outcome(wrong=3, hazards=1, findings=[self.FINDING])]),
            (self.row("numbers", ""), [caught]),
            (self.row(), [caught, outcome(status=2, trouble="ended with status 2")]),
        ):
            self.assertTrue(broken.complaints(row, outcomes), (row, outcomes))


OUTPUT = """\
hazards  2 found (schedule fair, seed 1)
         E07 phase-aba at lesson04.cu:101, 32 times
           warp 0 of CTA 0 waits for phase 0 of `full[0]`,
           but nothing makes the barrier wait.
         E01 deadlock at k_tile.cuh:30
           warp 0 waits forever.
         --explain with the id of a finding prints the rule behind it.
"""


class OutcomeTest(unittest.TestCase):
    def test_findings_are_read(self):
        self.assertEqual(
            emulated.read_findings(OUTPUT),
            (
                emulated.Finding(
                    "phase-aba",
                    "lesson04.cu:101",
                    "warp 0 of CTA 0 waits for phase 0 of `full[0]`, "
                    "but nothing makes the barrier wait.",
                ),
                emulated.Finding("deadlock", "k_tile.cuh:30", "warp 0 waits forever."),
            ),
        )

    def test_only_a_verdict_without_a_fault_is_right(self):
        self.assertTrue(outcome(status=0).is_right)
        for bad in (
            outcome(status=1),
            outcome(status=0, wrong=1),
            outcome(status=0, hazards=1),
            outcome(status=0, trouble="no verdict"),
        ):
            self.assertFalse(bad.is_right, bad)

    def test_a_run_without_a_verdict_is_trouble(self):
        refused = emulated.run("lesson03", ["--m", "8k"], emulated.WHOLE[0])
        self.assertIn("status 2", refused.trouble)
        self.assertFalse(refused.is_right)

    def test_schedules(self):
        self.assertEqual(len(emulated.WHOLE), 22)
        self.assertEqual(
            [str(schedule) for schedule in emulated.SAMPLE], ["fair 1", "adversarial 2", "random 3"]
        )


if __name__ == "__main__":
    unittest.main()
