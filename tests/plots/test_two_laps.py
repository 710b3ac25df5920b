"""The picture of two laps: the ring that it is computed from, and what it shows of it."""

import unittest

from test_pictures import PictureTest

import two_laps


class Barriers(unittest.TestCase):
    def test_a_fresh_barrier_has_completed_parity_1(self):
        self.assertEqual(two_laps.Barrier().wait(1, 3.0), 3.0)
        self.assertIsNone(two_laps.Barrier().wait(0, 3.0))

    def test_parity_tells_a_phase_from_the_one_before(self):
        barrier = two_laps.Barrier([2.0, 5.0])
        self.assertEqual(barrier.wait(0, 1.0), 2.0)  # phase 0
        self.assertEqual(barrier.wait(1, 2.0), 5.0)  # phase 1

    def test_parity_does_not_tell_a_phase_from_the_second_before(self):
        barrier = two_laps.Barrier([2.0, 5.0, 9.0])
        self.assertEqual(barrier.wait(0, 3.0), 3.0)  # meant phase 2, got phase 0
        self.assertEqual(barrier.wait(0, 6.0), 9.0)  # meant phase 0, got phase 2


class Rings(unittest.TestCase):
    COPY_TIMES = (0.0, 0.3, 1.0, 1.5, 4.5, 40.0)

    def test_each_product_finds_its_k_tile(self):
        for stages in range(1, 9):
            for k_tiles in (0, 1, stages - 1, stages, stages + 1, 3 * stages + 1):
                for copy_time in self.COPY_TIMES:
                    with self.subTest(stages=stages, k_tiles=k_tiles, copy_time=copy_time):
                        ring = two_laps.Ring(stages, k_tiles, copy_time)
                        held = [product.holds for product in ring.products]
                        self.assertEqual(held, list(range(k_tiles)))
                        self.assertFalse(ring.hangs)
                        self.assertEqual(ring.end, ring.now)  # no copy lands after the CTA has gone

    def test_no_copy_overwrites_what_is_read(self):
        ring = two_laps.Ring(4, 20, 2.5)
        for product in ring.products:
            for copy in ring.copies[product.k_tile + 1 :]:
                if copy.k_tile % 4 == product.k_tile % 4:
                    self.assertGreaterEqual(copy.begin, product.end)

    def test_the_reader_waits_for_the_parity_of_the_lap(self):
        parities = [product.parity for product in two_laps.Ring(3, 9, 2.0).products]
        self.assertEqual(parities, [0, 0, 0, 1, 1, 1, 0, 0, 0])

    def test_without_a_phase_the_first_lap_is_right(self):
        for copy_time in self.COPY_TIMES:
            ring = two_laps.Ring(4, 4, copy_time, tracks_phase=False)
            self.assertEqual([product.holds for product in ring.products], [0, 1, 2, 3])

    def test_without_a_phase_slow_copies_are_read_a_lap_late(self):
        ring = two_laps.Ring(4, 8, two_laps.SLOW, tracks_phase=False)
        self.assertEqual([product.holds for product in ring.products], [0, 1, 2, 3, 0, 1, 2, 3])
        self.assertFalse(ring.hangs)
        self.assertGreater(ring.end, ring.now)  # the last copy lands after the CTA has gone

    def test_without_a_phase_fast_copies_hang(self):
        ring = two_laps.Ring(4, 8, two_laps.FAST, tracks_phase=False)
        self.assertTrue(ring.hangs)
        self.assertEqual(ring.products[-1].k_tile, 4)


class TwoLaps(PictureTest):
    def test_program(self):
        out = self.folder / "two_laps.png"
        done = self.run_program("two_laps.py", "-o", out)
        self.assertEqual((done.returncode, done.stderr, done.stdout), (0, "", f"{out}\n"))
        self.assert_draws(
            out, two_laps.COPY, two_laps.WAIT, two_laps.RIGHT, two_laps.STALE, *two_laps.PARITY
        )

    def test_what_it_shows(self):
        fig = two_laps.draw()
        self.assert_tidy(fig)
        self.assert_holds(
            fig, "Two laps of a ring of 4 stages", "copy of 7", "wait (1)", "0, not 4", "3, not 7",
            "waits for parity 0 for ever", "phase 2: parity 0",
        )  # fmt: skip

    def test_it_reads_no_files(self):
        self.assert_refused(
            self.run_program("two_laps.py", "one.jsonl"), "unrecognized arguments: one.jsonl"
        )
