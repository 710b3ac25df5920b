"""The sweeps: what their curves and tables hold, and what they refuse."""

from records import SAMPLE, changed, gemm, text, without
from test_pictures import PictureTest

import picture
import results
import sweeps

SAMPLE_SWEEPS = SAMPLE / "sweeps"


def ring(stages, share, tile="128x128", **changes):
    knobs = {"stages": str(stages), "tile": tile}
    return gemm(4, "ring_buffer", ms=0.2 / share, library_ms=0.2, knobs=knobs, **changes)


def specialized(stages, lag, share):
    knobs = {"stages": str(stages), "lag": str(lag)}
    return gemm(5, "warp_specialization", ms=0.2 / share, library_ms=0.2, knobs=knobs)


def by_k(lesson, k, share, beta=0, band=8):
    name, tile = {7: ("cooperative", "128x256"), 8: ("ping_pong", "128x128")}[lesson]
    record = gemm(lesson, name, (4096, 4096, k), ms=0.2 / share, library_ms=0.2,
                  knobs={"tile": tile, "band": str(band)})  # fmt: skip
    return changed(record, "problem.beta", beta)


def tiled(tiles, ms, split=None):
    lesson, name = (9, "persistent") if split is None else (11, "stream_k")
    return gemm(lesson, name, (128 * tiles, 256, 4096), ms=ms, library_ms=0.05,
                knobs={} if split is None else {"split": split})  # fmt: skip


class SweepTest(PictureTest):
    def sweep(self, name, *records):
        return sweeps.SWEEPS[name](self.load(*records))

    def curves(self, sweep):
        """The figure's curves as {name: [(x, share), ...]}."""
        fig = sweeps.draw(sweep)
        self.assert_tidy(fig)
        lines = [line for line in fig.axes[0].lines if line.get_marker() == "o"]
        return {
            curve.name: [(x, round(y, 6)) for x, y in zip(line.get_xdata(), line.get_ydata())]
            for curve, line in zip(sweep.curves, lines, strict=True)
        }


class Sample(SweepTest):
    def test_each_sweep(self):
        for name in sweeps.SWEEPS:
            with self.subTest(sweep=name):
                out = self.folder / f"{name}.png"
                done = self.run_program("sweeps.py", SAMPLE_SWEEPS, "--sweep", name, "-o", out)
                self.assertEqual((done.returncode, done.stderr, done.stdout), (0, "", f"{out}\n"))
                self.assert_draws(out, *picture.COLOURS[:2])

    def test_texts(self):
        loaded = results.load([SAMPLE_SWEEPS])
        fig = sweeps.draw(sweeps.stages(loaded))
        self.assert_tidy(fig)
        self.assert_holds(fig, "What more stages are worth", "stages", "tile 128x128", "485", "–")
        self.assert_holds(fig, "Share of cuBLAS's speed in lesson 04, ring_buffer, at 4096³")
        fig = sweeps.draw(sweeps.lag(loaded))
        self.assert_tidy(fig)
        self.assert_holds(fig, "lag, in k-tiles", "2 stages", "4 stages", "585")
        fig = sweeps.draw(sweeps.k_sweep(loaded))
        self.assert_tidy(fig)
        self.assert_holds(fig, "07, β = 0", "08, β = 1", "08 over 07, β = 1", "1.111", "cuBLAS")
        footer = "\n".join(artist.get_text() for artist in fig.texts)
        self.assertIn("tile 128x256; 08 ping_pong, tile 128x128", footer)
        self.assertIn("sample, not measured", footer)


class Curves(SweepTest):
    def test_stages(self):
        sweep = self.sweep("stages", ring(3, 0.6), ring(1, 0.3), ring(8, 0.5, "64x128"))
        self.assertEqual(
            self.curves(sweep), {"tile 64x128": [(8, 0.5)], "tile 128x128": [(1, 0.3), (3, 0.6)]}
        )

    def test_only_runs_at_the_most_measured_shape_without_c(self):
        other = ring(2, 0.9, shape=(8192, 8192, 8192))
        with_c = changed(ring(4, 0.8), "problem.beta", 1)
        sweep = self.sweep("stages", other, ring(1, 0.3), with_c, ring(2, 0.6), gemm())
        self.assertEqual(self.curves(sweep), {"tile 128x128": [(1, 0.3), (2, 0.6)]})

    def test_lag(self):
        records = specialized(10, 0, 0.7), specialized(2, 1, 0.6), specialized(2, 0, 0.65)
        self.assertEqual(
            self.curves(self.sweep("lag", *records)),
            {"2 stages": [(0, 0.65), (1, 0.6)], "10 stages": [(0, 0.7)]},
        )

    def test_k(self):
        records = [by_k(lesson, k, 0.9, beta)
                   for lesson in (7, 8) for k in (64, 4096) for beta in (0, 1)]  # fmt: skip
        faster = [by_k(8, 4096, 0.99, band=16), by_k(7, 4096, 0.99, band=1)]
        sweep = self.sweep("k_sweep", *records, *faster)
        points = [(6, 0.9), (12, 0.9)]
        names = ["07, β = 0", "08, β = 0", "07, β = 1", "08, β = 1"]
        self.assertEqual(self.curves(sweep), dict.fromkeys(names, points))
        self.assertEqual(
            [(over.name, under.name) for over, under in sweep.compared],
            [("08, β = 0", "07, β = 0"), ("08, β = 1", "07, β = 1")],
        )

    def test_a_point_that_one_lesson_lacks(self):
        sweep = self.sweep("k_sweep", by_k(7, 64, 0.8), by_k(7, 128, 0.8), by_k(8, 128, 1.2))
        fig = sweeps.draw(sweep)
        self.assert_tidy(fig)
        self.assert_holds(fig, "–", "1.500")

    def test_sawtooth(self):
        sweep = self.sweep(
            "sawtooth", tiled(132, 0.05), tiled(133, 0.1), tiled(132, 0.0625, "hybrid"),
            tiled(133, 0.08, "hybrid"), tiled(133, 0.1, "data-parallel"),
        )  # fmt: skip
        fig = sweeps.draw(sweep)
        self.assert_tidy(fig)
        self.assert_holds(fig, "TFLOP/s", "132", "133", "cuBLAS", "09", "11 hybrid")
        flops = {tiles: 2 * 128 * tiles * 256 * 4096 / 1e9 for tiles in (132, 133)}
        drawn = {name: [y for _, y in points] for name, points in self.curves(sweep).items()}
        for name, expected in {
            "cuBLAS": [flops[132] / 0.05, flops[133] / 0.05],
            "09": [flops[132] / 0.05, flops[133] / 0.1],
            "11 data-parallel": [flops[133] / 0.1],
            "11 hybrid": [flops[132] / 0.0625, flops[133] / 0.08],
        }.items():
            for y, tflops in zip(drawn[name], expected, strict=True):
                self.assertAlmostEqual(y / tflops, 1, places=2)

    def test_crossovers(self):
        def column(tiles, k, ms, split):
            return gemm(11, "stream_k", (128 * tiles, 256, k), ms=ms, library_ms=0.05,
                        knobs={"split": split})  # fmt: skip

        sweep = self.sweep(
            "crossovers", column(150, 4096, 0.1, "data-parallel"), column(150, 4096, 0.08, "hybrid"),
            column(198, 4096, 0.1, "data-parallel"), column(198, 4096, 0.125, "hybrid"),
            column(150, 1024, 0.05, "data-parallel"), column(150, 1024, 0.05, "hybrid"),
            column(264, 4096, 0.1, "data-parallel"), column(264, 4096, 0.05, "hybrid"),
            column(231, 4096, 0.05, "hybrid"),
        )  # fmt: skip
        self.assertEqual(
            self.curves(sweep),
            {"K = 1024": [(18, 1.0)], "K = 4096": [(18, 1.25), (66, 0.8)]},
        )
        fig = sweeps.draw(sweep)
        self.assert_holds(fig, "of the uncut speed", "uncut", "tiles in the last wave")
        self.assert_holds(fig, "gain", "1.25", "0.80")

    def test_one_point(self):
        sweep = self.sweep("stages", ring(1, 0.3))
        self.assertEqual(self.curves(sweep), {"tile 128x128": [(1, 0.3)]})

    def test_shares_that_are_close_are_told_apart(self):
        fig = sweeps.draw(self.sweep("stages", ring(1, 0.97), ring(2, 0.975)))
        self.assert_tidy(fig)
        low, high = fig.axes[0].get_ylim()
        self.assertTrue(0.9 < low < 0.97 and 0.975 < high < 1.05, (low, high))
        fig = sweeps.draw(self.sweep("stages", ring(1, 0.01), ring(2, 1.5)))
        self.assert_tidy(fig)
        self.assertEqual(fig.axes[0].get_ylim()[0], 0)


class Refusals(SweepTest):
    def refuse(self, name, phrase, *records):
        out = self.folder / "out.png"
        data = self.write(text(*records))
        done = self.run_program("sweeps.py", data, "--sweep", name, "-o", out)
        self.assert_refused(done, phrase)
        self.assertFalse(out.exists())

    def test_no_run_to_draw(self):
        self.refuse("stages", "no run of lesson 04", gemm())
        self.refuse("lag", "no run of lesson 05", ring(1, 0.3))
        self.refuse("k_sweep", "no run of lesson 08", by_k(7, 64, 0.9))
        self.refuse("stages", "1 failed verification",
                    changed(ring(1, 0.3), "verdict.status", "fail"))  # fmt: skip
        self.refuse("stages", "without C", changed(ring(1, 0.3), "problem.beta", 1))
        self.refuse("stages", "no run of lesson 04", changed(ring(1, 0.3), "problem.init", "zeros"))

    def test_no_column_of_tiles(self):
        self.refuse("crossovers", "cut and whole", tiled(150, 0.05, "hybrid"))
        self.refuse("sawtooth", "no run of lesson 09 at M×256×4096", gemm(9, "persistent"),
                    tiled(132, 0.05, "auto"))  # fmt: skip

    def test_lessons_at_different_sizes(self):
        elsewhere = gemm(8, "ping_pong", (64, 64, 64), knobs={"tile": "128x128", "band": "8"})
        self.refuse("k_sweep", "no run of lesson 08 at 4096×4096×K",
                    by_k(7, 64, 0.9), by_k(7, 128, 0.9), elsewhere)  # fmt: skip

    def test_knobs_of_another_form(self):
        self.refuse("stages", "no knob stages", without(ring(1, 0.3), "knobs.stages"))
        self.refuse("stages", "stages many, no number",
                    changed(ring(1, 0.3), "knobs.stages", "many"))  # fmt: skip

    def test_bad_data(self):
        self.refuse("stages", "the field verdict is missing", without(ring(1, 0.3), "verdict"))
        other = changed(ring(2, 0.3), "machine.gpu", "another GPU")
        self.refuse("stages", "different GPUs", ring(1, 0.3), other)
        done = self.run_program("sweeps.py", self.write("{"), "--sweep", "lag")
        self.assert_refused(done, "truncated")

    def test_which_sweep_must_be_said(self):
        self.assert_refused(self.run_program("sweeps.py", SAMPLE_SWEEPS), "--sweep")
        self.assert_refused(
            self.run_program("sweeps.py", SAMPLE_SWEEPS, "--sweep", "tile"), "tile"
        )
