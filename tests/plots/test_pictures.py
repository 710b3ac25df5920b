"""The pictures: what they hold, that nothing overlaps, and that no display is needed."""

import itertools
import unittest

from matplotlib import colors, image
from matplotlib.text import Text

from records import SAMPLE, ProgramTest, changed, gemm, roofline, text

import epilogues
import ladder
import picture
import results
import roofline as roofline_program

NAMES = (
    "naive wgmma tma ring_buffer warp_specialization setmaxnreg cooperative ping_pong persistent "
    "multicast stream_k grouped fused_epilogue training_epilogue fp8_scaling topk_softmax "
    "register_a megakernel memory_bound capstone"
).split()
SHAPES = [
    (512, 512, 512), (1024, 1024, 1024), (4096, 4096, 512), (4096, 4096, 4096),
    (8192, 1024, 8192), (8192, 8192, 8192),
]  # fmt: skip


def all_lessons():
    """Records of 20 lessons at six sizes, from 1 % to 104 % of the library."""
    records = []
    for number, name in enumerate(NAMES, 1):
        for shape in SHAPES:
            library_ms = shape[0] * shape[1] * shape[2] / 350e9
            share = 1.04 - 1.03 / number**1.3
            records.append(gemm(number, name, shape, library_ms / share, library_ms))
    return records


def texts(fig):
    """The visible texts of a drawn figure, with what they cover in pixels."""
    fig.canvas.draw()
    found = [artist for artist in fig.findobj(Text) if artist.get_visible() and artist.get_text()]
    # Text's own extent: that of an annotation has its arrow in it.
    return [(artist, Text.get_window_extent(artist)) for artist in found]


class PictureTest(ProgramTest):
    def assert_tidy(self, fig):
        """No text leaves the picture; no two level texts overlap."""
        width, height = fig.canvas.get_width_height()
        drawn = texts(fig)
        for artist, box in drawn:
            inside = box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height
            self.assertTrue(inside, f"{artist.get_text()!r} leaves the picture: {box}")
        level = [(artist, box) for artist, box in drawn if artist.get_rotation() == 0]
        for (one, a), (other, b) in itertools.combinations(level, 2):
            # A pixel or two of the boxes' own margin may touch.
            apart = a.x1 < b.x0 + 3 or b.x1 < a.x0 + 3 or a.y1 < b.y0 + 3 or b.y1 < a.y0 + 3
            self.assertTrue(apart, f"{one.get_text()!r} and {other.get_text()!r} overlap")

    def assert_holds(self, fig, *expected):
        found = [artist.get_text() for artist, _ in texts(fig)]
        for phrase in expected:
            self.assertIn(phrase, found)

    def assert_draws(self, path, *colours):
        """A PNG of the picture's size in which each colour covers more than a few pixels."""
        pixels = image.imread(path)[:, :, :3]
        self.assertGreaterEqual(pixels.shape[1], 1800)
        self.assertTrue((pixels[:8] == 1).all(), "the margin is not white")
        for colour in colours:
            near = abs(pixels - colors.to_rgb(colour)).max(axis=2) < 0.02
            self.assertGreater(near.sum(), 500, f"nothing is drawn in {colour}")

    def load(self, *records):
        return results.load([self.write(text(*records))])


class Ladder(PictureTest):
    def test_sample(self):
        path = self.folder / "new folder" / "ladder.png"
        done = self.run_program("ladder.py", SAMPLE, "-o", path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, f"{path}\n")
        self.assert_draws(path, *picture.COLOURS[:4], picture.INK)
        self.assertEqual([file.name for file in path.parent.iterdir()], ["ladder.png"])

    def test_sample_is_labelled(self):
        fig = ladder.draw(results.load([SAMPLE]).runs)
        self.assert_tidy(fig)
        self.assert_holds(fig, "01\nnaive", "02\nwgmma", "03\ntma", "44 %  4096³", "342", "773")
        footer = "\n".join(artist.get_text() for artist in fig.texts)
        self.assertIn("sample, not measured, CUDA driver 13.0, cuBLAS 13.1.0", footer)
        self.assertIn("commit unknown, 2025-01-31", footer)
        self.assertIn("L2 flushed by reading 256 MiB; normal inputs", footer)

    def test_curves_are_the_shares(self):
        shape = (1024, 1024, 1024)
        loaded = self.load(
            gemm(1, "naive", shape, ms=1.0, library_ms=0.01),
            gemm(3, "tma", shape, ms=0.04, library_ms=0.01),
            gemm(3, "tma", shape, ms=0.02, library_ms=0.01, knobs={"tile": "64x64"}),
            gemm(4, "ring", shape, ms=0.01, library_ms=0.011),
        )
        fig = ladder.draw(loaded.runs)
        curve = fig.axes[0].lines[-1]
        self.assertEqual(list(curve.get_xdata()), [0, 1, 2])
        for drawn, share in zip(curve.get_ydata(), (0.01, 0.5, 1.1)):
            self.assertAlmostEqual(drawn, share)
        self.assert_holds(fig, "110 %  1024³", "50.0", "2.20")  # the speed-ups, × 50 and × 2.2
        self.assert_tidy(fig)

    def test_size_that_a_lesson_lacks(self):
        loaded = self.load(gemm(1, "naive"), gemm(2, "wgmma", (64, 64, 64)))
        fig = ladder.draw(loaded.runs)
        self.assert_holds(fig, "–")
        self.assert_tidy(fig)

    def test_one_lesson(self):
        self.assert_tidy(ladder.draw(self.load(gemm()).runs))

    def test_twenty_lessons(self):
        fig = ladder.draw(self.load(*all_lessons()).runs)
        self.assert_tidy(fig)
        self.assert_holds(fig, "20 capstone")

    def test_chosen_sizes(self):
        path = self.write(text(*(gemm(3, "tma", (64 * size,) * 3) for size in range(1, 9))))
        out = self.folder / "out.png"
        done = self.run_program("ladder.py", path, "-o", out)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(
            done.stderr, "ladder.py: 2 of 8 records left out: 2 at other sizes (--shape)\n"
        )
        done = self.run_program("ladder.py", path, "-o", out, "--shape", "64x64x64")
        self.assertEqual(done.returncode, 0)
        self.assertIn("7 at other sizes", done.stderr)
        self.assert_draws(out, picture.COLOURS[0])

    def test_left_out_records_are_counted(self):
        path = self.write(text(
            gemm(),
            gemm(date="2025-01-30T12:00:00Z"),
            changed(gemm(lesson=2), "verdict.status", "fail"),
            changed(gemm(lesson=2), "verdict.status", "unchecked"),
            changed(gemm(lesson=2), "contenders.0.ms", float("nan")),
            changed(gemm(lesson=2), "contenders.0.ms", None),
            changed(gemm(lesson=2), "problem.init", "zeros"),
            changed(gemm(lesson=2), "problem.beta", 1),
            changed(gemm(lesson=2), "protocol.name", "sustained"),
        ))  # fmt: skip
        out = self.folder / "out.png"
        done = self.run_program("ladder.py", path, "-o", out)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(
            done.stderr,
            "ladder.py: 8 of 9 records left out: 1 failed verification, "
            "1 unchecked (measured with --bench), "
            f"2 without a finite number (first: contenders[0].ms is nan in {path}:5), "
            "1 superseded by a newer record, 1 on other inputs than normal (--init), "
            "1 timed otherwise than interleaved (--protocol), "
            "1 of another problem than D = A·Bᵀ\n",
        )
        self.assert_draws(out, picture.COLOURS[0])


class Roofline(PictureTest):
    def test_sample(self):
        path = self.folder / "roofline.png"
        done = self.run_program("roofline.py", SAMPLE, "-o", path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assert_draws(path, *picture.ordinal_colours(3), picture.INK)

    def test_points_stand_at_their_intensity(self):
        loaded = self.load(roofline(), gemm(ms=0.4, library_ms=0.2))
        fig = roofline_program.draw(loaded.rooflines[0], loaded.runs)
        self.assert_tidy(fig)
        (axes,) = fig.axes
        lesson, library = axes.lines[-2:]
        # 2 * 4096^3 FLOP over three matrices of 4096^2 elements of 2 bytes.
        self.assertAlmostEqual(lesson.get_xdata()[0], 4096 / 3)
        self.assertAlmostEqual(library.get_xdata()[0], 4096 / 3)
        self.assertAlmostEqual(lesson.get_ydata()[0], 2 * 4096**3 / 0.4e-3 * 1e-12)
        self.assertAlmostEqual(library.get_ydata()[0], 2 * 4096**3 / 0.2e-3 * 1e-12)
        self.assert_holds(
            fig, "ridge: 207 FLOP/byte", "memory: 4.20 TB/s", "4096³", "03 tma", "cuBLAS",
            "wgmma on random numbers: 870 TFLOP/s at 1560 MHz",
            "wgmma on zeros: 946 TFLOP/s at 1749 MHz",
        )  # fmt: skip

    def test_roof(self):
        loaded = self.load(roofline())
        fig = roofline_program.draw(loaded.rooflines[0], [])
        self.assert_tidy(fig)
        roof = fig.axes[0].lines[0]
        (left, low), ridge, (_, high) = zip(roof.get_xdata(), roof.get_ydata())
        self.assertAlmostEqual(low, left * 4.2)
        self.assertAlmostEqual(ridge[0], 870 / 4.2, places=1)
        self.assertAlmostEqual(ridge[1], 870)
        self.assertAlmostEqual(high, 870)

    def test_tiny_and_huge_problems(self):
        loaded = self.load(
            roofline(), gemm(shape=(1, 8, 8), ms=0.003, library_ms=0.003),
            gemm(shape=(16384, 16384, 8192), ms=7.0, library_ms=6.5),
        )  # fmt: skip
        self.assert_tidy(roofline_program.draw(loaded.rooflines[0], loaded.runs))

    def test_sweeps_over_m_are_left_out(self):
        swept = [gemm(11, "stream_k", (128 * tiles, 256, 4096)) for tiles in range(130, 150)]
        loaded = self.load(roofline(), *all_lessons(), *swept)
        runs = roofline_program.without_sweeps(loaded.runs)
        self.assertEqual({run.problem.shape for run in runs}, set(SHAPES))
        self.assert_tidy(roofline_program.draw(loaded.rooflines[0], runs))

    def test_twenty_lessons(self):
        loaded = self.load(roofline(), *all_lessons())
        self.assert_tidy(roofline_program.draw(loaded.rooflines[0], loaded.runs))


class Surroundings(PictureTest):
    def test_a_stale_display_does_not_matter(self):
        stale = {"DISPLAY": "localhost:64.0", "MPLBACKEND": "nonsense", "XAUTHORITY": "/none"}
        for program in ("ladder.py", "roofline.py"):
            out = self.folder / "out.png"
            done = self.run_program(program, SAMPLE, "-o", out, environment=stale)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assert_draws(out, picture.INK)

    def test_without_matplotlib(self):
        package = self.folder / "matplotlib"
        package.mkdir()
        (package / "__init__.py").write_text("raise ModuleNotFoundError('no such module')")
        old = self.write("an old picture", "old.png")
        for program in ("ladder.py", "roofline.py"):
            path = {"PYTHONPATH": str(self.folder)}
            done = self.run_program(program, SAMPLE, "-o", old, environment=path)
            self.assertEqual(done.returncode, 3)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertIn("make setup", done.stderr)
            self.assertEqual(old.read_text(), "an old picture")

    def test_the_users_style_does_not_matter(self):
        style = self.write("axes.facecolor: black\nfigure.dpi: 20\n", "matplotlibrc")
        plain, styled = self.folder / "plain.png", self.folder / "styled.png"
        self.run_program("ladder.py", SAMPLE, "-o", plain)
        self.run_program(
            "ladder.py", SAMPLE, "-o", styled, environment={"MATPLOTLIBRC": str(style)}
        )
        self.assertEqual(plain.read_bytes(), styled.read_bytes())


class Spread(unittest.TestCase):
    def test_what_is_apart_stays(self):
        self.assertEqual(picture.spread([30, 0, 10], 10, 0, 100), [30, 0, 10])

    def test_neighbours_part_evenly(self):
        self.assertEqual(picture.spread([50, 50], 10, 0, 100), [45, 55])
        self.assertEqual(picture.spread([50, 52, 90], 10, 0, 100), [46, 56, 90])

    def test_bounds(self):
        self.assertEqual(picture.spread([98, 99, 50], 10, 0, 100), [90, 100, 50])
        self.assertEqual(picture.spread([1, 2], 10, 0, 100), [0, 10])

    def test_nothing(self):
        self.assertEqual(picture.spread([], 10, 0, 100), [])


class EpiloguesTest(PictureTest):
    @staticmethod
    def run_of(shape, ms, library_ms, beta=0, lesson=13, **knobs):
        knobs = {"activation": "none", "bias": "column", "residual": "off", "output": "bf16", **knobs}
        record = gemm(lesson, "fused_epilogue", shape, ms=ms, library_ms=library_ms, knobs=knobs)
        record["problem"]["beta"] = beta
        return record

    def records(self):
        backward = {"activation": "gelu-tanh", "pass": "backward", "scalar": "none", "sums": "ordered"}
        for shape in ((4096, 4096, 512), (4096, 4096, 4096)):
            yield self.run_of(shape, 0.2, 0.19, bias="none")
            yield self.run_of(shape, 0.25, 0.3, activation="gelu")
            yield self.run_of(shape, 0.22, 0.24, beta=1, bias="none")
            yield self.run_of(shape, 0.3, 0.9, lesson=14, **backward)

    def test_multiples_of_the_plain_time(self):
        runs = self.load(*self.records(), self.run_of((64, 64, 64), 0.1, 0.1, activation="relu")).runs
        panels = epilogues.measured(runs)
        self.assertEqual(list(panels), [(4096, 4096, 512), (4096, 4096, 4096)])
        rows = panels[4096, 4096, 512]
        self.assertEqual(list(rows), ["bias, GELU", "C", "dGELU (tanh), bias gradient"])
        for row, (own, library) in {"bias, GELU": (1.25, 1.5), "C": (1.1, 1.2)}.items():
            self.assertAlmostEqual(rows[row][0], own)
            self.assertAlmostEqual(rows[row][1], library)

    def test_picture(self):
        runs = self.load(*self.records()).runs
        fig = epilogues.draw(epilogues.measured(runs), runs)
        self.assert_tidy(fig)
        self.assert_holds(fig, "bias, GELU", "4096³", "lesson", "library")

    def test_nothing_to_draw(self):
        path = self.folder / "plain.json"
        path.write_text(text(gemm()))
        done = self.run_program("epilogues.py", path, "-o", self.folder / "out.png")
        self.assert_refused(done, "there is no plain run of lesson 13")
