"""The command line of the built lessons and of ptxrun, as a user without a GPU meets it; and the
sample records against docs/result-files.md."""

import ctypes
import glob
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "plots" / "data" / "sample"
LESSONS = sorted(path.name for path in ROOT.glob("lesson[0-9][0-9]"))
GEMM_LESSONS = [lesson for lesson in LESSONS if lesson != "lesson00"]
SHAPED_LESSONS = [lesson for lesson in GEMM_LESSONS if lesson != "lesson12"]
TIME_LIMIT_S = 60
SPANS = {
    "wait empty", "load", "wait full", "multiply", "wait turn", "epilogue", "store", "schedule",
}  # fmt: skip


def run(lesson, *arguments, **changes):
    """Runs a lesson to its end; `changes` are environment variables."""
    return subprocess.run(
        [ROOT / lesson, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, **changes},
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_S,
    )


def has_timeline(lesson):
    return "--trace FILE" in run(lesson, "--help").stdout


def has_schedule(lesson):
    return "--print-schedule CTAS" in run(lesson, "--help").stdout


SCHEDULED_LESSONS = [lesson for lesson in GEMM_LESSONS if has_schedule(lesson)]
TRACED_LESSONS = [lesson for lesson in GEMM_LESSONS if has_timeline(lesson)]


def has_driver():
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def stub_driver():
    """The libcuda that toolkits bring for linking only, or None."""
    roots = ["/usr/local/cuda*", os.environ.get("CUDA_HOME", ""), str(ROOT / ".venv")]
    for root in filter(None, roots):
        for found in glob.glob(f"{root}/**/stubs/libcuda.so", recursive=True):
            return found
    return None


@unittest.skipUnless(LESSONS, "no lesson is built: make lessons")
class CommandLine(unittest.TestCase):
    def assert_refused(self, done, lesson, *words):
        """Exit status 2 and one line on stderr with `words`; nothing was launched or printed."""
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertTrue(done.stderr.startswith(f"{lesson}: "), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_bad_input_is_refused_by_flag(self):
        cases = [
            (["--m", "abc"], "--m"),
            (["--m", "-8"], "--m"),
            (["--m", "8k"], "--m"),
            (["--m", "4294967297"], "--m"),
            (["--mm", "8"], "--mm"),
            (["--m"], "--m"),
            (["--m", "--n", "8"], "--m"),
            (["--m", "8", "--m", "8"], "--m"),
            (["--m=8"], "--m=8"),
            (["--n", ""], "--n"),
            (["--k", "1e3"], "--k"),
            (["--rounds", "0"], "--rounds"),
            (["--soak", "1"], "--soak"),
            (["--alpha", "nan"], "--alpha"),
            (["--beta", "inf"], "--beta"),
            (["--timeout", "0"], "--timeout"),
            (["--lda", "0"], "--lda"),
            (["--seed", "-1"], "--seed"),
            (["--init", "gaussian"], "--init"),
            (["--device", "tpu"], "--device"),
            (["--baseline", "fastest"], "--baseline"),
            (["--break", "nothing"], "--break"),
            (["--schedule", "unfair"], "--schedule"),
            (["--device", "cuda", "--schedule", "fair"], "--schedule"),
            (["--explain", "E99"], "E01 deadlock"),
            (["--dump-ptx", "/dev/null/a.ptx"], "--dump-ptx"),
            (["--ptx", "/dev/null/a.ptx"], "--ptx"),
            (["--ptx", "/"], "--ptx"),
            (["--check-only", "--bench"], "--check-only"),
            (["--trace-sms", "0"], "--trace-sms"),
            (["8192"], "8192"),
        ]
        for lesson in LESSONS:
            for arguments, flag in cases:
                with self.subTest(lesson=lesson, arguments=arguments):
                    self.assert_refused(run(lesson, *arguments), lesson, flag)

    def test_an_unwritable_record_is_refused_before_the_run(self):
        with tempfile.TemporaryDirectory() as folder:
            for path in (folder, f"{folder}/missing/out.json", "/dev/null/out.json"):
                for lesson in LESSONS:
                    with self.subTest(lesson=lesson):
                        self.assert_refused(run(lesson, "--json", path), lesson, "--json", path)
            self.assertEqual(os.listdir(folder), [])

    def test_an_unwritable_trace_is_refused_before_the_run(self):
        with tempfile.TemporaryDirectory() as folder:
            for path in (folder, f"{folder}/missing/out.json"):
                for lesson in TRACED_LESSONS:
                    with self.subTest(lesson=lesson):
                        self.assert_refused(run(lesson, "--trace", path), lesson, "--trace", path)
            self.assertEqual(os.listdir(folder), [])

    def test_lessons_without_roles_refuse_to_trace(self):
        self.assertIn("lesson03", TRACED_LESSONS)
        for lesson in set(LESSONS) - set(TRACED_LESSONS):
            with self.subTest(lesson=lesson):
                done = run(lesson, "--trace", "/dev/null")
                self.assert_refused(done, lesson, f"--trace: {lesson} has no timeline")

    def test_lessons_without_a_schedule_refuse_to_print_it(self):
        self.assertEqual(SCHEDULED_LESSONS, ["lesson09", "lesson11"])
        for lesson in set(LESSONS) - set(SCHEDULED_LESSONS):
            with self.subTest(lesson=lesson):
                done = run(lesson, "--print-schedule", 4)
                self.assert_refused(done, lesson, "--print-schedule", "lessons on scheduling do")

    def schedule(self, lesson, *arguments):
        """The pieces that --print-schedule prints, as rows of numbers by column."""
        done = run(lesson, "--print-schedule", *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        head, *lines = done.stdout.splitlines()
        self.assertEqual(head, "cta,number,row,column,k_begin,k_count,k_step")
        return [dict(zip(head.split(","), map(int, line.split(",")))) for line in lines]

    def test_a_schedule_needs_no_device(self):
        for lesson in SCHEDULED_LESSONS:
            with self.subTest(lesson=lesson):
                pieces = self.schedule(lesson, 132, *shape_flags(8192, 8192, 8192))
                self.assertEqual(sum(piece["k_count"] for piece in pieces), 64 * 32 * 128)
                self.assertEqual({piece["cta"] for piece in pieces}, set(range(132)))
                self.assertEqual(self.schedule(lesson, 132, "--m", 0), [])
                for nothing in (["--k", 0], ["--alpha", 0]):
                    pieces = self.schedule(lesson, 132, *nothing)
                    self.assertEqual({piece["k_count"] for piece in pieces}, {0})

    def test_knobs_change_what_is_printed(self):
        def tiles(*knobs):
            pieces = self.schedule("lesson09", 4, *shape_flags(512, 768, 128), *knobs)
            return [(piece["row"], piece["column"]) for piece in pieces if piece["cta"] == 1]

        self.assertEqual(tiles("--raster", "n", "--swizzle", 1), [(0, 1), (1, 2), (3, 0)])
        self.assertEqual(tiles("--raster", "m", "--swizzle", 1), [(1, 0), (1, 1), (1, 2)])
        self.assertEqual(tiles("--raster", "n", "--swizzle", 2), [(1, 0), (1, 2), (3, 1)])
        self.assertEqual(len(tiles("--tile", "256x128")), 3)
        self.assertEqual(len(tiles("--persistent", "off")), 1)
        pieces = self.schedule("lesson09", 1, *shape_flags(256, 256, 128), "--serpentine", "on")
        ways = [(piece["k_begin"], piece["k_step"]) for piece in pieces]
        self.assertEqual(ways, [(0, 1), (1, -1)])
        cut = self.schedule("lesson11", 2, *shape_flags(384, 256, 1024), "--split", "stream-k")
        parts = [(piece["cta"], piece["row"], piece["k_begin"], piece["k_count"]) for piece in cut]
        self.assertEqual(parts, [(0, 1, 0, 8), (0, 0, 0, 16), (1, 2, 0, 16), (1, 1, 8, 8)])

    def test_the_schedules_of_the_figures_are_what_the_lessons_print(self):
        files = sorted((ROOT / "plots" / "data" / "schedules").glob("*.csv"))
        self.assertTrue(files)
        for path in files:
            with self.subTest(path.name):
                title, _, printed = path.read_text().partition("\n")
                command = title.removeprefix("# ./").split()
                self.assertEqual(run(*command).stdout, printed, "make schedules prints it again")

    def assert_printed(self, done):
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 100)

    def test_help_and_breaks_need_no_driver(self):
        for lesson in LESSONS:
            with self.subTest(lesson=lesson):
                done = run(lesson, "--help")
                self.assert_printed(done)
                self.assertTrue(done.stdout.startswith(f"{lesson}: "))
        for lesson in GEMM_LESSONS:
            with self.subTest(lesson=lesson):
                self.assert_printed(run(lesson, "--list-breaks"))

    def test_help_lists_every_knob_and_break(self):
        for lesson in GEMM_LESSONS:
            with self.subTest(lesson=lesson):
                for name in re.findall(r"^  (\S+)", run(lesson, "--list-breaks").stdout, re.M):
                    refusal = run(lesson, "--break", name, "--rounds", "1").stderr
                    self.assertIn("do not go together", refusal)
                knobs = re.findall(r"^  (--\S+) ([^\s|]+)\|", run(lesson, "--help").stdout, re.M)
                self.assertTrue(knobs)
                for flag, value in knobs:
                    self.assert_refused(run(lesson, flag, value, "--mm"), lesson, "--mm")

    def test_a_closed_pipe_ends_nothing_but_the_printing(self):
        for lesson in LESSONS:
            with self.subTest(lesson=lesson):
                reader, writer = os.pipe()
                os.close(reader)
                with os.fdopen(writer, "w") as closed:
                    done = subprocess.run([ROOT / lesson, "--help"], stdout=closed,
                                          stderr=subprocess.PIPE, timeout=TIME_LIMIT_S)
                self.assertEqual((done.returncode, done.stderr), (0, b""))

    @unittest.skipIf(has_driver(), "this machine has an NVIDIA driver")
    def test_no_driver(self):
        with tempfile.TemporaryDirectory() as folder:
            record = pathlib.Path(folder) / "out.json"
            record.write_text("old\n")
            for lesson in LESSONS:
                with self.subTest(lesson=lesson):
                    done = run(lesson, "--device", "cuda", "--json", record)
                    self.assertEqual(done.returncode, 3)
                    self.assertIn("There is no NVIDIA driver", done.stderr)
                    self.assertEqual(done.stdout, "")
                    instead = run(lesson, "--check-only")
                    self.assertEqual((instead.returncode, instead.stderr), (0, ""))
                    self.assertIn("device   There is no NVIDIA driver", instead.stdout)
                    self.assertIn("PTX emulator", instead.stdout)
            self.assertEqual(record.read_text(), "old\n")
            self.assertEqual(os.listdir(folder), ["out.json"])

    @unittest.skipUnless(stub_driver(), "no toolkit here brings a stub of libcuda")
    def test_stub_driver(self):
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(stub_driver(), f"{folder}/libcuda.so.1")
            for lesson in LESSONS:
                with self.subTest(lesson=lesson):
                    done = run(lesson, "--device", "cuda", LD_LIBRARY_PATH=folder)
                    self.assertEqual(done.returncode, 3)
                    self.assertIn("stub", done.stderr)
                    self.assertNotIn("There is no NVIDIA driver", done.stderr)
                    self.assertEqual(done.stdout, "")


SCHEDULES = ("fair", "random", "adversarial")


def shape_flags(m, n, k):
    return ["--m", m, "--n", n, "--k", k]


def emulate(lesson, *arguments):
    return run(lesson, "--device", "emulator", *arguments)


@unittest.skipUnless(LESSONS, "no lesson is built: make lessons")
class Emulator(unittest.TestCase):
    def assert_passes(self, done, conditions):
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertIn("verify   PASS: ", done.stdout)
        self.assertIn(f"hazards  none found ({conditions})", done.stdout)

    def assert_caught(self, done, rule):
        self.assertEqual((done.returncode, done.stderr), (1, ""), done.stdout)
        self.assertNotIn("PASS", done.stdout)
        self.assertRegex(done.stdout, rf"(?m)^hazards  \d+ found \(schedule .*\)$")
        self.assertRegex(done.stdout, rf"(?m)^ {{9}}E\d\d {rule} at \S+:\d+")

    def test_a_run_says_under_which_schedule_it_was_right(self):
        for schedule in SCHEDULES:
            done = emulate("lesson03", "--schedule", schedule, "--seed", 3, *shape_flags(7, 9, 65))
            self.assert_passes(done, f"schedule {schedule}, seed 3")

    def test_default_sizes_are_small(self):
        for lesson in LESSONS:
            with self.subTest(lesson=lesson):
                done = emulate(lesson)
                self.assert_passes(done, "schedule fair, seed 1")
                self.assertIn("time     not measured", done.stdout)
                self.assertNotIn("FLOP/s", done.stdout)
        for lesson in SHAPED_LESSONS:
            self.assertIn("M 256, N 8, K 256", emulate(lesson, "--n", 8).stdout)

    def test_an_empty_problem_launches_nothing(self):
        empty = {"lesson12": ["--groups", "0x8x8*3,8x0x8"]}
        for lesson in GEMM_LESSONS:
            done = emulate(lesson, *empty.get(lesson, ["--m", 0]))
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("nothing to launch", done.stdout)

    def test_the_record_has_the_hazards(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "out.json"
            emulate("lesson03", "--break", "no-full-wait", "--json", path)
            record = json.loads(path.read_text())
            self.assertEqual(record["machine"]["gpu"], "PTX emulator")
            self.assertEqual(record["verdict"]["status"], "fail")
            self.assertGreater(record["verdict"]["hazards"], 0)
            self.assertEqual(record["contenders"], [])
            emulate("lesson03", "--json", path)
            self.assertEqual(json.loads(path.read_text())["verdict"]["hazards"], 0)

    def trace(self, lesson, *arguments):
        """The parsed file of --trace, and what the run said."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "trace.json"
            done = emulate(lesson, "--trace", path, *arguments)
            self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
            self.assertEqual(os.listdir(folder), ["trace.json"])
            return json.loads(path.read_text()), done.stdout

    def test_a_trace_has_the_spans_of_every_track_in_order(self):
        for lesson in TRACED_LESSONS:
            with self.subTest(lesson=lesson):
                grouped = ["--groups", "256x256x512,64x64x0,100x300x64"]
                problem = grouped if lesson == "lesson12" else shape_flags(256, 256, 512)
                trace, said = self.trace(lesson, *problem, "--trace-sms", 4)
                self.assertIn("hazards  none found", said)
                self.assertNotIn("had no", said)
                self.assertEqual(trace["otherData"]["time_unit"], "model time")
                self.assertEqual(trace["otherData"]["record"]["verdict"]["status"], "pass")
                events = trace["traceEvents"]
                spans = [event for event in events if event["ph"] == "X"]
                self.assertLessEqual({span["name"] for span in spans}, SPANS)
                self.assertEqual(min(span["ts"] for span in spans), 0)
                tracks = {}
                for span in spans:
                    tracks.setdefault((span["pid"], span["tid"]), []).append(span)
                named = {(event["pid"], event["tid"]) for event in events
                         if event["name"] == "thread_name"}
                self.assertLessEqual(set(tracks), named)  # a role may have had nothing to do
                for track in tracks.values():
                    for before, after in zip(track, track[1:]):
                        self.assertLessEqual(before["ts"] + before["dur"], after["ts"] + 1e-9)
                self.assertLessEqual({"multiply", "epilogue"}, {span["name"] for span in spans})

    def test_a_trace_has_every_k_tile(self):
        trace, _ = self.trace("lesson03", *shape_flags(128, 128, 512))
        spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
        for name in ("load", "wait full", "multiply"):
            steps = [span["args"]["step"] for span in spans if span["name"] == name]
            self.assertEqual(steps, list(range(8)))
        self.assertEqual(spans[-1]["name"], "epilogue")

    def test_a_trace_shows_what_the_schedule_says(self):
        """Each CTA takes its tiles in the printed order. The emulator has 4 SMs; a span's step is
        its tile's index, which with raster n and swizzle 1 is that of a plain walk."""
        settings = {
            "lesson09": [["--raster", "n", "--swizzle", 1]],
            "lesson11": [["--split", split] for split in ("stream-k", "hybrid", "data-parallel")],
        }
        for lesson, knob_sets in settings.items():
            for knobs in knob_sets:
                with self.subTest(lesson=lesson, knobs=knobs):
                    # One column of tiles has one order.
                    arguments = [*shape_flags(128 * 9, 256, 576), *knobs]
                    trace, _ = self.trace(lesson, *arguments, "--trace-sms", 4)
                    loaded = {}
                    for event in trace["traceEvents"]:
                        if event["ph"] == "X" and event["name"] == "load":
                            cta = event["pid"] - 1  # a trace has no process 0
                            loaded.setdefault(cta, []).append(event["args"]["step"])
                    done = run(lesson, "--print-schedule", 4, *arguments)
                    printed = {}
                    for line in done.stdout.splitlines()[1:]:
                        cta, _, row, *_ = map(int, line.split(","))
                        printed.setdefault(cta, []).append(row)
                    self.assertEqual(loaded, printed)

    def test_a_trace_of_fewer_sms_is_a_part(self):
        few, _ = self.trace("lesson03", *shape_flags(512, 512, 64), "--trace-sms", 1)
        all_of_them, _ = self.trace("lesson03", *shape_flags(512, 512, 64), "--trace-sms", 4)
        ctas = [{event["pid"] for event in trace["traceEvents"]} for trace in (few, all_of_them)]
        self.assertLess(ctas[0], ctas[1])
        self.assertEqual(len(ctas[1]), 16)

    def test_spans_that_have_no_room_are_counted_and_mentioned(self):
        shape = shape_flags(8, 8, 64 * 700)
        trace, said = self.trace("lesson03", "--tile", "64x64", *shape)
        lost = trace["otherData"]["lost_spans"]
        self.assertGreater(lost, 0)
        self.assertIn(f"the last {lost} spans had no room", said)
        spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
        self.assertEqual(len(spans) + lost, 3 * 700 + 1)

    def test_a_wrong_kernel_leaves_no_trace(self):
        with tempfile.TemporaryDirectory() as folder:
            ptx, path = pathlib.Path(folder) / "a.ptx", pathlib.Path(folder) / "trace.json"
            path.write_text("old\n")
            run("lesson03", "--dump-ptx", ptx)
            ptx.write_text(re.sub(r"(?m)^.*wgmma\.wait_group.*$", "", ptx.read_text()))
            done = emulate("lesson03", "--ptx", ptx, "--trace", path)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("trace    not written: the kernel is wrong.", done.stdout)
            self.assertEqual(path.read_text(), "old\n")

    def test_bench_needs_a_gpu(self):
        for lesson in LESSONS:
            done = emulate(lesson, "--bench")
            self.assertEqual(done.returncode, 2)
            self.assertIn("--bench needs a GPU", done.stderr)

    def test_explain(self):
        for lesson in LESSONS:
            done = run(lesson, "--explain", "E07")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertTrue(done.stdout.startswith("E07 phase-aba\n"))
            self.assertEqual(run(lesson, "--explain", "phase-aba").stdout, done.stdout)

    def test_edited_ptx_runs_in_place_of_the_programs_own(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "lesson03.ptx"
            done = run("lesson03", "--dump-ptx", path)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
            self.assertEqual(emulate("lesson03", "--ptx", path).stdout, emulate("lesson03").stdout)

            ptx = path.read_text()
            without_wait = re.sub(r"(?m)^.*wgmma\.wait_group.*$", "", ptx)
            path.write_text(without_wait)
            self.assert_caught(emulate("lesson03", "--ptx", path), "accumulator-in-flight")

            refusals = {
                "abracadabra": ptx.replace("wgmma.commit_group", "abracadabra"),
                "has no entry": ptx.replace("gemm_tma", "gemm_map"),
                "PTX line": ptx.rstrip().removesuffix("}"),
            }
            for words, text in refusals.items():
                path.write_text(text)
                done = emulate("lesson03", "--ptx", path)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(f"lesson03: {path}: ", done.stderr)
                self.assertIn(words, done.stderr)

    def test_the_time_limit_ends_a_run(self):
        done = emulate("lesson01", "--timeout", "0.001")
        self.assertEqual(done.returncode, 1)
        self.assertIn("did not end within 0.001 s", done.stdout)


@unittest.skipUnless("lesson12" in LESSONS, "lesson12 is not built: make lessons")
class Groups(unittest.TestCase):
    def test_lists_and_files_of_problems(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "experts.txt"
            path.write_text("# m n k\n128 64 64\n0 64 64  # nobody chose it\n\n7 9 65\n")
            for groups in ("128x64x64,0x64x64,7x9x65", path):
                done = emulate("lesson12", "--groups", groups)
                self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
                self.assertIn(f"3 groups ({groups}), sum of M 135, N up to 64, K up to 65,",
                              done.stdout)
                self.assertIn("verify   PASS: 8,255 elements", done.stdout)

    def test_bad_lists_are_refused_in_words(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "experts.txt"
            path.write_text("128 64 64\n128 64\n")
            cases = {
                ("--groups", "8x8"): "a group is MxNxK",
                ("--groups", "none.txt"): "is no file that can be read",
                ("--groups", path): "line 2: a line has the three numbers m n k, not 2.",
                ("--groups", "8x8x8", "--weights", 0): "--weights takes a whole number",
                ("--groups", "8x8x8,8x9x8", "--weights", 1): "would multiply the same B",
                ("--m", 8): "--m",
                ("--lda", 8): "--lda",
            }
            for arguments, words in cases.items():
                with self.subTest(arguments=arguments):
                    done = emulate("lesson12", *arguments)
                    self.assertEqual((done.returncode, done.stdout.count("PASS")), (2, 0))
                    self.assertIn(words, done.stderr)

    def test_the_first_wrong_element_is_named_with_its_group(self):
        done = emulate("lesson12", "--groups", "128x128x64*9,128x128x0*9", "--break", "stale-sums")
        self.assertEqual(done.returncode, 1)
        self.assertIn("of D of group 9: got", done.stdout)


SAXPY = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry saxpy(.param .f32 a, .param .u64 x, .param .u64 y, .param .u32 n)
{
  .reg .b32 %r<6>;
  .reg .b64 %rd<4>;
  .reg .f32 %f<4>;
  .reg .pred %p;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.s32 %r1, %r1, %r2, %r3;
  ld.param.u32 %r4, [n];
  setp.ge.u32 %p, %r1, %r4;
  @%p ret;
  ld.param.f32 %f1, [a];
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd2, [y];
  mul.wide.u32 %rd3, %r1, 4;
  add.u64 %rd1, %rd1, %rd3;
  add.u64 %rd2, %rd2, %rd3;
  ld.global.f32 %f2, [%rd1];
  ld.global.f32 %f3, [%rd2];
  fma.rn.f32 %f3, %f1, %f2, %f3;
  st.global.f32 [%rd2], %f3;
  ret;
}
"""


@unittest.skipUnless("lesson16" in LESSONS, "lesson16 is not built: make lessons")
class Rows(unittest.TestCase):
    def test_what_is_computed_is_said(self):
        size = shape_flags(5, 9, 64)
        done = emulate("lesson16", *size)
        self.assertIn("D = softmax of each row of 1 * A B^T, M 5, N 9, K 64", done.stdout)
        self.assertIn("PASS: 45 elements", done.stdout)
        done = emulate("lesson16", *size, "--mode", "topk", "--top", 3)
        self.assertIn("the 3 largest of each row of 1 * A B^T, M 5, N 9, K 64", done.stdout)
        self.assertIn("PASS: 30 elements", done.stdout)

    def test_what_cannot_be_is_refused_in_words(self):
        for arguments, words in (
            (["--mode", "topk", "--top", 6, *shape_flags(8, 5, 8)], "has only 5 elements"),
            (["--mode", "topk", "--top", 9], "--top"),
            (["--beta", 1], "--beta"),
            (["--ldc", 256], "--ldc"),
            (["--mode", "topk", "--break", "no-max", "--check-only"], "--mode softmax only"),
        ):
            with self.subTest(arguments=arguments):
                done = emulate("lesson16", *arguments)
                self.assertEqual(done.returncode, 2)
                self.assertIn(words, done.stderr)

    def test_the_first_wrong_column_is_named(self):
        done = emulate("lesson16", "--mode", "topk", "--top", 4, "--init", "index",
                       *shape_flags(8, 300, 64), "--break", "last-of-equals")
        self.assertEqual(done.returncode, 1)
        self.assertIn("of the columns: got ", done.stdout)


@unittest.skipUnless((ROOT / "ptxrun").exists(), "ptxrun is not built: make ptxrun")
class PtxRun(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.saxpy = self.folder / "saxpy.ptx"
        self.saxpy.write_text(SAXPY)

    def arguments(self, n):
        return ["--grid", 8, "--arg", "f32:2", "--arg", "buffer:f32:1000=index", "--arg",
                "buffer:f32:1000=1", "--arg", f"u32:{n}"]

    def test_a_kernel_runs_and_its_buffers_are_shown(self):
        done = run("ptxrun", self.saxpy, *self.arguments(1000))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("f32 x 1000: 1 3 5 7 9 11 13 15 ...", done.stdout)
        self.assertIn("hazards  none found (schedule fair, seed 1)", done.stdout)

        flags = self.folder / "flags.txt"
        flags.write_text("# saxpy\n--arg f32:2\n--arg buffer:f32:1000=index  # x\n\n"
                         "--arg buffer:f32:1000=1 --arg u32:1000\n")
        done = run("ptxrun", self.saxpy, "--grid", 8, f"@{flags}", "--print", "2:3")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("f32 x 1000: 1 3 5 ...", done.stdout)

    def test_a_hazard_is_exit_status_1(self):
        done = run("ptxrun", self.saxpy, *self.arguments(1024))
        self.assertEqual(done.returncode, 1)
        self.assertIn("E35 out-of-bounds", done.stdout)

    def test_bad_input_is_refused_in_words(self):
        cases = [
            ([], "PTX file"),
            ([self.saxpy, "--grid", "8k"], "--grid"),
            ([self.saxpy, "--entry", "daxpy"], "saxpy"),
            ([self.saxpy, "--arg", "f31:2"], "f31:2"),
            ([self.saxpy, "--arg", "u8:256"], "256"),
            ([self.saxpy, "--arg", "map:bf16:64x63"], "multiple of 16"),
            ([self.saxpy, "--arg", "f32:2"], "4 arguments, not 1"),
            ([self.folder / "none.ptx"], "none.ptx"),
            ([self.saxpy, "--print", "0"], "no buffer or map 0"),
            ([self.saxpy, "--arg", "same:0"], "no buffer or map 0"),
            ([f"@{self.folder}/none.txt"], "none.txt"),
            ([self.saxpy, "--explain", "E99"], "E01 deadlock"),
        ]
        for arguments, words in cases:
            with self.subTest(arguments=arguments):
                done = run("ptxrun", *arguments)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(words, done.stderr)

    def test_help(self):
        done = run("ptxrun", "--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 100)


def documented_keys(section):
    """The keys of each table in a section of docs/result-files.md, by the object they are in; the
    first table, of the record itself, has the name ''."""
    page = (ROOT / "docs" / "result-files.md").read_text()
    text = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", page, re.M | re.S)[1]
    keys, name = {}, ""
    for line in text.splitlines():
        if title := re.fullmatch(r"(?:Each entry of )?`(\w+)`:", line):
            name = title[1]
        elif line.startswith("| `"):
            keys.setdefault(name, []).extend(re.findall(r"`(\w+)`", line.split("|")[1]))
    return keys


class SampleRecords(unittest.TestCase):
    """The unit tests hold the sample files to be what the harness writes."""

    def read(self, name):
        lines = (SAMPLE / name).read_text().splitlines()
        self.assertEqual(len(lines), 1)
        record = json.loads(lines[0])
        self.assertEqual(record["machine"]["gpu"], "sample, not measured")
        return record

    def test_gemm_record_is_as_documented(self):
        record = self.read("lesson03.json")
        keys = documented_keys("A GEMM lesson")
        self.assertEqual(list(record), keys.pop(""))
        for name in ("problem", "verdict", "protocol", "ratio", "machine"):
            self.assertEqual(list(record[name]), keys.pop(name), name)
        contender_keys = keys.pop("contenders")
        for contender in record["contenders"]:
            self.assertEqual(list(contender), contender_keys)
        self.assertEqual(keys, {})

    def test_grouped_record_is_as_documented(self):
        record = self.read("lesson12.json")
        self.assertEqual(record["kind"], "grouped")
        gemm_keys = documented_keys("A GEMM lesson")
        self.assertEqual(list(record), gemm_keys[""])
        keys = documented_keys("A lesson that computes many products")
        self.assertEqual(list(record["problem"]), keys["problem"])
        roles = [contender["role"] for contender in record["contenders"]]
        self.assertEqual(roles, ["lesson", "standard", "candidate"])
        for contender in record["contenders"]:
            self.assertEqual(list(contender), gemm_keys["contenders"])

    def test_trace_is_as_documented(self):
        trace = json.loads((SAMPLE / "trace_lesson03.json").read_text())
        keys = documented_keys("A timeline")
        self.assertEqual(list(trace), keys[""])
        self.assertEqual(list(trace["otherData"]), keys["otherData"])
        self.assertEqual(list(trace["otherData"]["record"]), documented_keys("A GEMM lesson")[""])
        spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
        for span in spans:
            self.assertEqual(list(span), keys["traceEvents"])

    def test_roofline_record_is_as_documented(self):
        record = self.read("lesson00.json")
        keys = documented_keys("The roofline lesson")
        self.assertEqual(list(record), keys[""])
        contender_keys = documented_keys("A GEMM lesson")["contenders"]
        times = contender_keys[contender_keys.index("ms"):]
        times.remove("tflops")
        own = [key for key in keys["ceilings"] if key not in times]
        for ceiling in record["ceilings"]:
            self.assertEqual(list(ceiling), own + times)


if __name__ == "__main__":
    unittest.main()
