"""The tables: their figures, that they round-trip, and that stale ones are noticed."""

import json
import shutil

from records import ROOT, SAMPLE, ProgramTest, changed, gemm, grouped, text

PAGE = """# A page

Before.
<!-- table: ladder -->
<!-- end -->
Between; `<!-- table: ladder -->` in a line is no marker.
<!-- table: lesson03 -->
| whatever | stood here |
<!-- end -->

<!-- table: ceilings -->
<!-- end -->
After.
"""


class Tables(ProgramTest):
    def make(self, marker, *records):
        """The lines between the markers of a page with one table."""
        data = self.write(text(*records))
        page = self.write(f"<!-- table: {marker} -->\n<!-- end -->\n", "page.md")
        done = self.run_program("tables.py", data, "--docs", page)
        self.assertEqual(done.returncode, 0, done.stderr)
        first, *table, last = page.read_text().splitlines()
        self.assertEqual((first, last), (f"<!-- table: {marker} -->", "<!-- end -->"))
        return table

    def check(self, page, data=SAMPLE):
        return self.run_program("tables.py", data, "--check", "--docs", page)

    def test_round_trip(self):
        page = self.write(PAGE, "page.md")
        done = self.check(page)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(
            done.stderr,
            "".join(
                f"tables.py: {page}: the table {name} is stale; `make tables` writes it anew\n"
                for name in ("ladder", "lesson03", "ceilings")
            ),
        )
        self.assertEqual(page.read_text(), PAGE)

        done = self.run_program("tables.py", SAMPLE, "--docs", page)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, f"{page}\n", ""))
        done = self.check(page)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

        fresh = page.read_text()
        done = self.run_program("tables.py", SAMPLE, "--docs", page)
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertEqual(page.read_text(), fresh)

    def test_only_what_is_between_markers_changes(self):
        page = self.write(PAGE, "page.md")
        self.run_program("tables.py", SAMPLE, "--docs", page)
        inside, kept = False, []
        for line in page.read_text().splitlines():
            inside = inside and line != "<!-- end -->"
            if not inside:
                kept.append(line)
            inside = inside or line.startswith("<!-- table: ")
        self.assertEqual(
            kept, [line for line in PAGE.splitlines() if line != "| whatever | stood here |"]
        )

    def test_a_changed_figure_makes_its_tables_stale(self):
        data = self.folder / "data"
        shutil.copytree(SAMPLE, data)
        page = self.write(PAGE, "page.md")
        self.run_program("tables.py", data, "--docs", page)
        self.assertEqual(self.check(page, data).returncode, 0)

        record = json.loads((data / "lesson03.json").read_text())
        slower = changed(record, "contenders.0.tflops", 0.993 * record["contenders"][0]["tflops"])
        (data / "lesson03.json").write_text(json.dumps(slower))
        done = self.check(page, data)
        self.assertEqual(done.returncode, 1)
        self.assertIn("the table ladder is stale", done.stderr)
        self.assertIn("the table lesson03 is stale", done.stderr)
        self.assertNotIn("ceilings", done.stderr)

    def test_lesson(self):
        quick = gemm(shape=(64, 64, 64), ms=0.005, library_ms=0.004)
        slow = gemm(shape=(8192, 8192, 8192), ms=250.0, library_ms=1.7)
        tile = gemm(shape=(64, 64, 64), ms=0.00321, library_ms=0.004, knobs={"tile": "64x64"})
        tile = changed(tile, "contenders.0.ms_upper_quartile", 0.00325)
        self.assertEqual(
            self.make("lesson03", slow, quick, tile)[:-2],
            [
                "| M×N×K | setting | time, ms (quartiles) | TFLOP/s | cuBLAS, TFLOP/s "
                "| share of cuBLAS |",
                "| --- | --- | ---: | ---: | ---: | ---: |",
                "| 64³ | tile 64x64 | 0.003210 (0.003210–0.003250) | 0.163 | 0.131 | 125 % |",
                "| 64³ | tile 128x128 | 0.005000 (0.005000–0.005000) | 0.105 | 0.131 | 80 % |",
                "| 8192³ | tile 128x128 | 250.0 (250.0–250.0) | 4.40 | 647 | 0.7 % |",
            ],
        )

    def test_a_softmax_has_a_table_and_no_place_in_the_ladder(self):
        softmax = changed(changed(gemm(), "kind", "softmax"), "lesson", 16)
        self.assertIn("128x128", self.make("lesson16", softmax)[2])
        self.assertNotIn("16 topk", "".join(self.make("ladder", gemm(), softmax)))

    def test_grouped(self):
        many = "128x8x8*64"
        table = self.make(
            "lesson12",
            grouped(f"0x8x8*9,{many}", tile="64x256"),
            grouped(many, weights="1"),
            grouped("1024x8x8*16", flop=2e9),
            grouped(ms=0.016),
            changed(grouped(tile="64x256"), "problem.beta", 1),
            grouped("ragged-small", order="list", loop_ms=0.015),
        )
        self.assertEqual(
            table[:-2],
            [
                "| problems | setting | time, ms (quartiles) | TFLOP/s | share of the grouped call "
                "| share of the loop |",
                "| --- | --- | ---: | ---: | ---: | ---: |",
                "| ragged-small | order list, tile 128x128 | 0.01000 (0.01000–0.01000) | 100 | 200 % "
                "| 150 % |",
                "| uniform | order weights, tile 64x256, α 1, β 1 | 0.01000 (0.01000–0.01000) | 100 "
                "| 200 % | 300 % |",
                "| uniform | order weights, tile 128x128 | 0.01600 (0.01600–0.01600) | 62.5 | 125 % "
                "| 188 % |",
                "| `1024x8x8*16` | order weights, tile 128x128 | 0.01000 (0.01000–0.01000) | 200 "
                "| 200 % | 300 % |",
                "| `0x8x8*9,128x8x8*64` | order weights, tile 64x256 | 0.01000 (0.01000–0.01000) "
                "| 100 | 200 % | 300 % |",
                "| `128x8x8*64` | order weights, tile 128x128, weights 1 "
                "| 0.01000 (0.01000–0.01000) | 100 | 200 % | 300 % |",
            ],
        )
        self.assertIn(
            "he grouped call is cublasGemmGroupedBatchedEx, the loop cublasGemmEx, one by one;",
            table[-1],
        )

    def test_grouped_runs_are_in_no_other_table(self):
        table = self.make("ladder", gemm(), grouped())
        self.assertEqual([line.split("|")[1].strip()[:4] for line in table[2:4]], ["[03 ", "cuBL"])
        page = self.write("<!-- table: lesson12 across=tile -->\n<!-- end -->\n", "page.md")
        data = self.write(text(gemm(), grouped()))
        done = self.run_program("tables.py", data, "--docs", page)
        self.assert_refused(done, "there is no measurement for the table lesson12")

    def test_across_a_knob(self):
        def run(swizzle, raster, share, shape=(4096, 4096, 4096), switch="on"):
            knobs = {"raster": raster, "swizzle": swizzle, "persistent": switch}
            return gemm(9, "persistent", shape, ms=0.2 / share, library_ms=0.2, knobs=knobs)

        table = self.make(
            "lesson09 across=swizzle",
            run("8", "n", 0.9), run("16", "n", 1.0), run("8", "m", 0.5), run("16", "m", 0.25),
            run("8", "m", 0.5, (64, 64, 64)), run("16", "m", 0.25, (64, 64, 64)),
            run("auto", "auto", 1.0), run("8", "n", 0.9, switch="off"),
        )  # fmt: skip
        self.assertEqual(
            table[:-2],
            [
                "| M×N×K | setting | swizzle 8 | swizzle 16 |",
                "| --- | --- | ---: | ---: |",
                "| 64³ | raster m | 0.001 (50 %) | 0.001 (25 %) |",
                "| 4096³ | raster n | 618 (90 %) | 687 (100 %) |",
                "| 4096³ | raster m | 344 (50 %) | 172 (25 %) |",
            ],
        )
        self.assertIn("in brackets the share of cuBLAS's speed", table[-1])
        table = self.make("lesson09 across=swizzle", run("8", "n", 0.9), run("16", "n", 1.0))
        self.assertEqual(table[0], "| M×N×K | swizzle 8 | swizzle 16 |")
        table = self.make(
            "lesson09 across=swizzle least=3", run("8", "n", 0.9), run("16", "n", 1.0),
            run("8", "m", 0.9), run("16", "m", 1.0), run("4", "m", 0.5),
        )  # fmt: skip
        self.assertEqual(table[0], "| M×N×K | swizzle 4 | swizzle 8 | swizzle 16 |")
        self.assertEqual(len(table), 5)

    def test_across_shapes(self):
        def run(bias, shape, ms):
            knobs = {"bias": bias, "output": "bf16"}
            return gemm(9, "persistent", shape, ms=ms, library_ms=0.2, knobs=knobs)

        table = self.make(
            "lesson09 across=shape",
            run("row", (4096, 4096, 4096), 0.25), run("none", (4096, 4096, 4096), 0.2),
            run("row", (4096, 4096, 512), 0.0401),
        )  # fmt: skip
        self.assertEqual(
            table[:-2],
            [
                "| setting | 4096×4096×512 | 4096³ |",
                "| --- | ---: | ---: |",
                "| bias row | 40.1 (499 %) | 250 (80 %) |",
                "| bias none | – | 200 (100 %) |",
            ],
        )
        self.assertIn("Times in µs, in brackets the share of cuBLAS's speed", table[-1])

    def test_lesson_caption(self):
        record = gemm()
        record["machine"].update(gpu="NVIDIA H200", commit="0123456789abcdef0123-dirty")
        self.assertEqual(
            self.make("lesson03", record)[-1],
            "<sub>Interleaved, L2 flushed by reading 256 MiB; normal inputs; NVIDIA H200, "
            "CUDA driver 13.0, cuBLAS 13.1.0, commit 012345678-dirty, 2025-01-31.</sub>",
        )

    def test_lesson_with_other_problems_and_late_launches(self):
        scaled = changed(changed(gemm(knobs={}), "problem.alpha", 2), "problem.beta", 3)
        pitched = changed(gemm(knobs={}), "problem.lda", 4104)
        late = changed(gemm(knobs={}, shape=(8, 8, 8)), "contenders.0.late", 2)
        table = self.make("lesson03", scaled, pitched, late)
        self.assertIn("| 8³ | – | 0.4000 (0.4000–0.4000)\\* |", table[2])
        self.assertIn("| 4096³ | α 2, β 3 |", table[3])
        self.assertIn("| 4096³ | lda 4104 |", table[4])
        self.assertIn("\\* may hold launch cost", table[-1])

    def test_lesson_without_work(self):
        table = self.make("lesson03", gemm(shape=(64, 64, 0), knobs={}))
        self.assertIn("| 64×64×0 | 0.4000 (0.4000–0.4000) | 0 | 0 | 50 % |", table)

    def test_lesson_beside_the_best_of_the_library(self):
        best = changed(gemm(), "ratio.best", 0.45)
        table = self.make("lesson03", best, gemm(shape=(64, 64, 64)))
        self.assertTrue(table[0].endswith("| share of cuBLAS | share of cuBLASLt's best |"))
        self.assertTrue(table[2].endswith("| 50 % | – |"))
        self.assertTrue(table[3].endswith("| 50 % | 45 % |"))

    def test_protocols_and_inputs_do_not_mix(self):
        sustained = changed(gemm(ms=0.5), "protocol.name", "sustained")
        sustained = changed(sustained, "protocol.text", "sustained, one second each")
        sustained = changed(sustained, "contenders.0.sm_clock_mhz", 1605)
        sustained = changed(sustained, "contenders.0.power_w", 698.4)
        zeros = changed(gemm(ms=0.3), "problem.init", "zeros")
        records = (gemm(), sustained, zeros)

        (interleaved,) = self.make("lesson03", *records)[2:-2]
        self.assertIn("| 0.4000 (", interleaved)
        table = self.make("lesson03 protocol=sustained", *records)
        self.assertIn("share of cuBLAS | clock, MHz | power, W |", table[0])
        self.assertIn("| 0.5000 (", table[2])
        self.assertTrue(table[2].endswith("| 1605 | 698 |"))
        self.assertTrue(table[-1].startswith("<sub>Sustained, one second each; normal inputs"))
        table = self.make("lesson03 init=zeros", *records)
        self.assertIn("| 0.3000 (", table[2])
        self.assertIn("zeros inputs", table[-1])

    def test_ladder(self):
        table = self.make(
            "ladder",
            gemm(1, "naive", (4096, 4096, 4096), ms=16.0, library_ms=0.2),
            gemm(3, "tma", (4096, 4096, 4096), ms=0.4, library_ms=0.2),
            gemm(3, "tma", (4096, 4096, 4096), ms=0.5, library_ms=0.2, knobs={"tile": "64x64"}),
            gemm(3, "tma", (8192, 8192, 8192), ms=1.6, library_ms=1.7),
            changed(gemm(3, "tma", (64, 64, 64)), "problem.beta", 1),
        )
        self.assertEqual(table[0], "| lesson | trick | 4096³ | 8192³ |")
        self.assertRegex(
            table[2],
            r"^\| \[01 naive\]\(.*docs/lesson01_naive\.md\) \| one thread, one output "
            r"\| 8\.59 \(1\.2 %\) \| – \|$",
        )
        self.assertTrue(table[3].endswith("| 344 (50 %) | 687 (106 %) |"))
        self.assertEqual(table[4], "| cuBLAS |  | 687 | 647 |")
        self.assertIn("each lesson at its fastest knobs", table[-1])

    def test_ceilings(self):
        page = self.write("<!-- table: ceilings -->\n<!-- end -->\n", "page.md")
        self.run_program("tables.py", SAMPLE, "--docs", page)
        self.assertEqual(
            page.read_text().splitlines()[1:-3],
            [
                "| ceiling | measured | clock, MHz | power, W |",
                "| --- | ---: | ---: | ---: |",
                "| copy, bytes read and written | 4.20 TB/s | 1755 | 410 |",
                "| wgmma on random numbers | 870 TFLOP/s | 1560 | 698 |",
                "| wgmma on zeros | 946 TFLOP/s | 1749 | 520 |",
                "| ridge point, on random numbers | 207 FLOP/byte |  |  |",
            ],
        )

    def test_the_newest_record_wins(self):
        data = self.write(text(
            gemm(ms=0.4, date="2025-02-01T00:00:00Z"), gemm(ms=0.8, date="2025-01-01T00:00:00Z"),
        ))  # fmt: skip
        page = self.write("<!-- table: lesson03 -->\n<!-- end -->\n", "page.md")
        done = self.run_program("tables.py", data, "--docs", page)
        self.assertEqual(
            done.stderr, "tables.py: 1 of 2 records left out: 1 superseded by a newer record\n"
        )
        self.assertIn("| 0.4000 (", page.read_text())
        self.assertNotIn("| 0.8000 (", page.read_text())


class Repository(ProgramTest):
    def test_the_tables_are_fresh(self):
        self.assertIn(
            "\n<!-- table: ladder -->\n", (ROOT / "README.md").read_text(encoding="utf-8")
        )
        done = self.run_program("tables.py", "--check")
        self.assertEqual(done.returncode, 0, done.stderr)
