"""Bad result files: one line on stderr, exit status 2, and the old picture or page stays."""

from records import ProgramTest, changed, gemm, grouped, roofline, text, without

# What is wrong, what the file holds, what the line must say.
BAD_FILES = [
    ("empty", "", "the file is empty"),
    ("blank", " \n\n", "the file is empty"),
    ("binary", b"\x89PNG\xff\xfe", "not a text file"),
    ("not JSON", "lesson,tflops\n3,342\n", "results.jsonl:1: not JSON"),
    ("truncated", text(gemm())[:-40], "results.jsonl:1: truncated"),
    ("truncated after a whole record", text(gemm()) + text(gemm())[:300], "jsonl:2: truncated"),
    ("C's NaN", text(gemm()).replace('"alpha": 1', '"alpha": nan'), "results.jsonl:1: not JSON"),
    ("an array", "[1, 2]\n", "the record is an array, not an object"),
    ("another schema", text(gemm(schema=2)), "schema 2 is not known"),
    ("no schema", text(without(gemm(), "schema")), "the field schema is missing"),
    ("another kind", text(gemm(kind="flops")), 'kind "flops" is not known'),
    ("a missing field", text(without(gemm(), "problem.beta")), "problem.beta is missing"),
    ("a missing object", text(without(gemm(), "machine")), "the field machine is missing"),
    ("null for an object", text(gemm(machine=None)), "machine is null, not an object"),
    (
        "a string for a number",
        text(changed(gemm(), "contenders.0.ms", "inf")),
        "contenders[0].ms is a string, not a number",
    ),
    ("a string for an integer", text(gemm(lesson="3")), "lesson is a string, not an integer"),
    ("true for a number", text(changed(gemm(), "contenders.0.ms", True)), "is a truth value"),
    ("a negative time", text(changed(gemm(), "contenders.0.ms", -0.4)), "not above zero"),
    ("a negative size", text(changed(gemm(), "problem.m", -8)), "problem.m is -8, below 0"),
    (
        "TFLOP/s that the time does not make",
        text(changed(gemm(), "contenders.0.tflops", 3436)),
        "3436 TFLOP/s, but its 0.4 ms make 343.6",
    ),
    (
        "no library",
        text(changed(gemm(), "contenders", gemm()["contenders"][:1])),
        'no contender has the role "standard"',
    ),
    (
        "no loop beside the grouped call",
        text(changed(grouped(), "contenders", grouped()["contenders"][:2])),
        'no contender has the role "candidate"',
    ),
    ("no FLOP of all groups", text(without(grouped(), "problem.flop")), "problem.flop is missing"),
    ("another verdict", text(changed(gemm(), "verdict.status", "ok")), '"ok" is not known'),
    ("another date", text(gemm(date="yesterday")), 'date is "yesterday"'),
    (
        "two GPUs",
        text(gemm(), changed(gemm(lesson=2), "machine.gpu", "NVIDIA H100")),
        "different GPUs (NVIDIA H100, sample, not measured)",
    ),
]

# Whole records of which none may be shown.
NO_MEASUREMENTS = [
    ("NaN", text(changed(gemm(), "contenders.0.ms", float("nan"))), "contenders[0].ms is nan in"),
    ("infinity", text(changed(gemm(), "ratio.standard", float("inf"))), "ratio.standard is inf in"),
    ("a number beyond double", text(gemm()).replace('"ms": 0.4,', '"ms": 1e999,'), "ms is inf in"),
    (
        "an integer beyond double",
        text(gemm()).replace('"ms": 0.4,', f'"ms": {10**400},'),
        "ms is inf in",
    ),
    ("null", text(changed(gemm(), "contenders.1.tflops", None)), "contenders[1].tflops is null in"),
    ("a wrong result", text(changed(gemm(), "verdict.status", "fail")), "1 failed verification"),
    (
        "bits that change",
        text(changed(gemm(), "verdict.soak_first_difference", 7)),
        "1 failed verification",
    ),
    ("an unchecked result", text(changed(gemm(), "verdict.status", "unchecked")), "1 unchecked"),
    ("a broken variant", text(gemm(**{"break": "no-fence"})), "1 of a variant that is broken"),
    ("edited PTX", text(gemm(ptx="edited.ptx")), "1 of edited PTX (--ptx)"),
    ("nothing timed", text(gemm(protocol=None, contenders=[], ratio=None)), "1 not timed"),
    ("only other inputs", text(changed(gemm(), "problem.init", "zeros")), "there is no"),
    ("only another protocol", text(changed(gemm(), "protocol.name", "sustained")), "there is no"),
]

BAD_ROOFLINES = [
    ("none", text(gemm()), "there is no record of lesson 00"),
    (
        "NaN",
        text(changed(roofline(), "ceilings.0.value", float("nan"))),
        "ceilings[0].value is nan",
    ),
    (
        "no copy ceiling",
        text(roofline(ceilings=roofline()["ceilings"][1:])),
        "the ceiling copy, in B/s, is missing",
    ),
    (
        "no ceiling on zeros",
        text(roofline(ceilings=roofline()["ceilings"][:2])),
        "the ceiling wgmma on zeros, in FLOP/s, is missing",
    ),
    ("another unit", text(changed(roofline(), "ceilings.1.unit", "TFLOP/s")), "is missing"),
    ("a ridge elsewhere", text(roofline(ridge_flop_per_byte=300)), "the ceilings make 207.1"),
    (
        "another GPU than the lessons'",
        text(changed(roofline(), "machine.gpu", "NVIDIA H100"), gemm()),
        "different GPUs",
    ),
]

PAGE = "# A page\n<!-- table: lesson03 -->\nold\n<!-- end -->\n"


class BadData(ProgramTest):
    def refuse_picture(self, program, path, phrase):
        picture = self.write("an old picture", "old.png")
        self.assert_refused(self.run_program(program, path, "-o", picture), phrase)
        self.assertEqual(picture.read_text(), "an old picture")
        left = {path.name for path in self.folder.iterdir()} - {"results.jsonl"}
        self.assertEqual(left, {"old.png"})

    def refuse_page(self, path, phrase, *arguments):
        page = self.write(PAGE, "page.md")
        self.assert_refused(self.run_program("tables.py", path, "--docs", page, *arguments), phrase)
        self.assertEqual(page.read_text(), PAGE)
        page.unlink()

    def test_ladder_refuses(self):
        for what, content, phrase in BAD_FILES + NO_MEASUREMENTS:
            with self.subTest(what):
                self.refuse_picture("ladder.py", self.write(content), phrase)

    def test_tables_refuse(self):
        for what, content, phrase in BAD_FILES + NO_MEASUREMENTS:
            with self.subTest(what):
                self.refuse_page(self.write(content), phrase)

    def test_tables_refuse_to_check(self):
        for what, content, phrase in BAD_FILES[:1] + NO_MEASUREMENTS[:1]:
            with self.subTest(what):
                self.refuse_page(self.write(content), phrase, "--check")

    def test_roofline_refuses(self):
        for what, content, phrase in BAD_FILES:
            with self.subTest(what):
                content = content if isinstance(content, bytes) else content.encode()
                if content.strip():
                    content = text(roofline()).encode() + content
                phrase = phrase.replace("jsonl:2", "jsonl:3").replace("jsonl:1", "jsonl:2")
                self.refuse_picture("roofline.py", self.write(content), phrase)

    def test_roofline_refuses_bad_ceilings(self):
        for what, content, phrase in BAD_ROOFLINES:
            with self.subTest(what):
                self.refuse_picture("roofline.py", self.write(content), phrase)

    def test_missing_file(self):
        missing = self.folder / "missing.jsonl"
        for program in ("ladder.py", "roofline.py"):
            self.refuse_picture(program, missing, "missing.jsonl: cannot be read (No such file")
        self.refuse_page(missing, "missing.jsonl: cannot be read (No such file")

    def test_directory_without_results(self):
        empty = self.folder / "empty"
        empty.mkdir()
        done = self.run_program("ladder.py", empty, "-o", self.folder / "out.png")
        self.assert_refused(done, "no .json or .jsonl file")

    def test_several_records_in_a_json_file(self):
        path = self.write(text(gemm(), gemm()), "two.json")
        done = self.run_program("ladder.py", path, "-o", self.folder / "out.png")
        self.assert_refused(done, "two.json: more than one record")

    def test_size_that_was_not_measured(self):
        path = self.write(text(gemm()))
        done = self.run_program(
            "ladder.py",
            path,
            "-o",
            self.folder / "out.png",
            "--shape",
            "4096x4096x4096",
            "--shape",
            "64x64x64",
        )
        self.assert_refused(done, "there is no run at 64³")

    def test_usage(self):
        for arguments, phrase in (
            (["--shape", "4096"], "4096 is not like 4096x4096x4096"),
            (["--shape", "1x1x1"] * 7, "at most 6 sizes"),
            (["-o", "out.svg"], "out.svg does not end in .png"),
            (["--protocol", "cold"], "invalid choice: 'cold'"),
            (["--colour"], "unrecognized arguments: --colour"),
        ):
            with self.subTest(phrase):
                self.assert_refused(self.run_program("ladder.py", *arguments), phrase)

    def test_picture_that_cannot_be_written(self):
        path = self.write(text(gemm()))
        done = self.run_program("ladder.py", path, "-o", path / "out.png")
        self.assert_refused(done, "out.png: cannot be written")


class Pages(ProgramTest):
    """Pages whose markers are wrong, with good data."""

    def test_refused(self):
        data = self.write(text(gemm()))
        for page, phrase in (
            ("<!-- table: lesson03 -->\n", "page.md:1: no line <!-- end --> ends this table"),
            ("\n<!-- table: lesson03 -->\n<!-- table: ladder -->\n<!-- end -->\n", "page.md:2: no"),
            ("<!-- table: lesson3 -->\n<!-- end -->\n", "the table lesson3 is not known"),
            ("<!-- table: lesson03, lesson02 -->\n<!-- end -->\n", "the marker is not like"),
            ("<!-- table: lesson03 size=4 -->\n<!-- end -->\n", "the option size is not known"),
            ("<!-- table: lesson02 -->\n<!-- end -->\n", "no measurement for the table lesson02"),
            ("<!-- table: ceilings -->\n<!-- end -->\n", "no measurement for the table ceilings"),
        ):
            with self.subTest(page):
                path = self.write(page, "page.md")
                self.assert_refused(self.run_program("tables.py", data, "--docs", path), phrase)
                self.assertEqual(path.read_text(), page)

    def test_one_bad_page_leaves_all_pages(self):
        data = self.write(text(gemm()))
        good = self.write(PAGE, "good.md")
        bad = self.write("<!-- table: lesson03 -->\n", "bad.md")
        self.assert_refused(self.run_program("tables.py", data, "--docs", good, bad), "bad.md:1")
        self.assertEqual(good.read_text(), PAGE)

    def test_lesson_without_a_source(self):
        data = self.write(text(gemm(lesson=99)))
        page = self.write("<!-- table: ladder -->\n<!-- end -->\n", "page.md")
        done = self.run_program("tables.py", data, "--docs", page)
        self.assert_refused(done, "no lessons/lesson99_*.cu says what its .trick is")

    def test_missing_page(self):
        data = self.write(text(gemm()))
        done = self.run_program("tables.py", data, "--docs", self.folder / "none.md")
        self.assert_refused(done, "none.md: cannot be read")
