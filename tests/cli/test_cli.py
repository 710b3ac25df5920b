"""The command line of the built lessons, as a user without a GPU meets it; and the sample records
against docs/result-files.md."""

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
TIME_LIMIT_S = 60


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
            (["--check-only", "--bench"], "--check-only"),
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
                    done = run(lesson, "--json", record)
                    self.assertEqual(done.returncode, 3)
                    self.assertIn("There is no NVIDIA driver", done.stderr)
                    self.assertEqual(done.stdout, "")
            self.assertEqual(record.read_text(), "old\n")
            self.assertEqual(os.listdir(folder), ["out.json"])

    @unittest.skipUnless(stub_driver(), "no toolkit here brings a stub of libcuda")
    def test_stub_driver(self):
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(stub_driver(), f"{folder}/libcuda.so.1")
            for lesson in LESSONS:
                with self.subTest(lesson=lesson):
                    done = run(lesson, LD_LIBRARY_PATH=folder)
                    self.assertEqual(done.returncode, 3)
                    self.assertIn("stub", done.stderr)
                    self.assertNotIn("There is no NVIDIA driver", done.stderr)
                    self.assertEqual(done.stdout, "")


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
