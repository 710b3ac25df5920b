"""That tests/run.py counts what happened, and takes no silence for success."""

import contextlib
import io
import importlib.util
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from fake_toolkit import ROOT, write

specification = importlib.util.spec_from_file_location("run", ROOT / "tests/run.py")
runner = importlib.util.module_from_spec(specification)
specification.loader.exec_module(runner)
Counts = runner.Counts


class RunnerTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_suites(self, *suites):
        """The exit status and the output of a run over these suites."""
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            status = runner.main(suites)
        return status, output.getvalue()

    def run_folder(self, text):
        write(self.folder / "some_test.py", "import os, unittest\n" + text)
        return self.run_suites(str(self.folder))

    def run_program(self, script):
        """Like run_suites(), with a shell script as the program of the unit tests."""
        write(self.folder / "build/unit_tests", f"#!/bin/sh\n{script}\n", executable=True)
        with mock.patch.object(runner, "ROOT", self.folder):
            return self.run_suites("unit")

    def last_line(self, output):
        return output.splitlines()[-1]

    def test_totals_of_catch2(self):
        for output, counts in [
            ("All tests passed (5 assertions in 2 test cases)\n", Counts(2, 0)),
            ("All tests passed (1 assertion in 1 test case)\n", Counts(1, 0)),
            (
                "test cases: 12 |  9 passed | 3 failed\nassertions: 40 | 37 passed | 3 failed\n",
                Counts(9, 3),
            ),
            (
                "test cases: 4 | 1 passed | 1 failed | 1 skipped | 1 failed as expected\n",
                Counts(2, 1, 1),
            ),
            ("test cases: 1 | 1 failed\n", Counts(0, 1)),
            ("No tests ran\n", Counts()),
        ]:
            self.assertEqual(runner.catch2_counts(output), counts, output)

    def test_a_folder_is_counted(self):
        status, output = self.run_folder(
            "class T(unittest.TestCase):\n"
            "  def test_a(self): pass\n"
            "  def test_b(self): self.fail('seen')\n"
            "  def test_c(self):\n"
            "    for i in range(3):\n"
            "      with self.subTest(i=i): self.fail()\n"
            "  def test_d(self): self.skipTest('')\n"
            "  def test_e(self): raise OSError\n"
            "  @unittest.expectedFailure\n"
            "  def test_f(self): pass\n"
        )
        self.assertEqual(status, 1)
        self.assertEqual(self.last_line(output), "1 passed, 4 failed, 1 skipped")
        self.assertIn("seen", output)

    def test_output_is_hidden_while_all_pass(self):
        status, output = self.run_folder(
            "class T(unittest.TestCase):\n  def test_a(self): print('unseen')\n"
        )
        self.assertEqual(status, 0)
        self.assertEqual(self.last_line(output), "1 passed, 0 failed")
        self.assertNotIn("unseen", output)

    def test_a_folder_that_does_not_load(self):
        status, output = self.run_folder("import nothing_of_this_name\n")
        self.assertEqual((status, self.last_line(output)), (1, "0 passed, 1 failed"))

    def test_a_class_that_can_not_be_set_up(self):
        status, output = self.run_folder(
            "class T(unittest.TestCase):\n"
            "  @classmethod\n"
            "  def setUpClass(cls): raise OSError\n"
            "  def test_a(self): pass\n"
            "class U(unittest.TestCase):\n"
            "  def test_a(self): pass\n"
        )
        self.assertEqual((status, self.last_line(output)), (1, "1 passed, 1 failed"))

    def test_a_folder_without_tests(self):
        status, output = self.run_folder("")
        self.assertEqual((status, self.last_line(output)), (1, "0 passed, 1 failed"))
        self.assertIn("ran no test", output)

    def test_a_crash_in_a_folder(self):
        status, output = self.run_folder(
            "class T(unittest.TestCase):\n  def test_a(self): os.abort()\n"
        )
        self.assertEqual((status, self.last_line(output)), (1, "0 passed, 1 failed"))
        self.assertIn("ended by signal 6", output)

    def test_a_program(self):
        passed = "All tests passed (5 assertions in 2 test cases)"
        for script, status, last in [
            (f"echo '{passed}'", 0, "2 passed, 0 failed"),
            (f"echo '{passed}'; exit 3", 1, "2 passed, 1 failed"),
            (f"echo '{passed}'; kill -SEGV $$", 1, "2 passed, 1 failed"),
            ("echo 'test cases: 2 | 1 passed | 1 failed'; exit 1", 1, "1 passed, 1 failed"),
            ("exit 0", 1, "0 passed, 1 failed"),
        ]:
            with self.subTest(script=script):
                result, output = self.run_program(script)
                self.assertEqual((result, self.last_line(output)), (status, last))

    def test_a_program_that_does_not_end(self):
        with mock.patch.object(runner, "TIME_LIMIT_S", 0.2):
            status, output = self.run_program("echo begun; exec sleep 60")
        self.assertEqual((status, self.last_line(output)), (1, "0 passed, 1 failed"))
        self.assertIn("begun", output)

    def test_a_program_that_is_missing(self):
        with mock.patch.object(runner, "ROOT", self.folder):
            status, output = self.run_suites("unit")
        self.assertEqual((status, self.last_line(output)), (1, "0 passed, 1 failed"))
        self.assertIn("could not be started", output)


if __name__ == "__main__":
    unittest.main()
