"""The pictures of who computes what: what they show of a schedule, and what they refuse."""

from matplotlib import colors

from test_pictures import PictureTest

import picture
import results
import schedule

DATA = results.REPOSITORY / "plots" / "data" / "schedules"
HEAD = ",".join(schedule.COLUMNS)
# Two CTAs, three tiles of eight k-tiles in a row: tile 1 is cut.
CUT = ["0,0,0,1,0,4,1", "0,1,0,0,0,8,1", "1,0,0,2,0,8,1", "1,1,0,1,4,4,1"]


class ScheduleTest(PictureTest):
    def file(self, *lines, title="", name="schedule.csv"):
        head = [f"# {title}"] if title else []
        return self.write("\n".join([*head, HEAD, *lines]) + "\n", name)

    def read(self, *lines, **file):
        return schedule.read(self.file(*lines, **file))


class Pictures(ScheduleTest):
    def test_those_of_the_notes(self):
        for view, pattern in (("order", "order_m_*"), ("order", "order_n_*"),
                              ("pieces", "*[!0-9].csv")):  # fmt: skip
            with self.subTest(pattern):
                files = sorted(DATA.glob(pattern))
                self.assertTrue(files)
                out = self.folder / "out.png"
                done = self.run_program("schedule.py", "--view", view, *files, "-o", out)
                self.assertEqual((done.returncode, done.stderr, done.stdout), (0, "", f"{out}\n"))
                self.assert_tidy(schedule.VIEWS[view]([schedule.read(path) for path in files]))

    def test_an_order_is_a_line_through_the_tiles(self):
        square = ["0,0,0,0,0,1,1", "0,1,1,1,0,1,1", "1,0,1,0,0,1,1", "1,1,0,1,0,1,1"]
        fig = schedule.draw_order([self.read(*square, title="./lesson09 --m 8 --swizzle 2")])
        self.assert_tidy(fig)
        self.assert_holds(fig, "--swizzle 2", "0", "2")
        (axes,) = fig.axes
        (line,) = axes.lines
        self.assertEqual(list(line.get_xdata()), [0.5, 0.5, 1.5, 1.5])
        self.assertEqual(list(line.get_ydata()), [0.5, 1.5, 1.5, 0.5])
        waves = [bar.get_facecolor()[:3] for bar in axes.patches]
        first, second = (colors.to_rgb(colour) for colour in picture.COLOURS[:2])
        self.assertEqual(waves, [first, first, second, second])

    def test_pieces_stand_one_after_the_other(self):
        fig = schedule.draw_pieces([self.read(*CUT, title="./lesson11 --split stream-k")])
        self.assert_tidy(fig)
        self.assert_holds(
            fig, "./lesson11 --split stream-k", "CTA 1", "1: 0 to 3", "1: 4 to 7", "0", "2"
        )
        (axes,) = fig.axes
        bars = [(round(bar.get_y() + 0.4), bar.get_x(), bar.get_width()) for bar in axes.patches]
        self.assertEqual(bars, [(0, 0, 4), (0, 4, 8), (1, 0, 8), (1, 8, 4)])
        given, whole, _, owned = axes.patches
        self.assertLess(given.get_alpha(), whole.get_alpha())
        self.assertEqual(owned.get_edgecolor()[:3], colors.to_rgb(picture.INK))

    def test_a_file_without_a_command_is_called_by_its_name(self):
        fig = schedule.draw_pieces([self.read(*CUT, name="mine.csv")])
        self.assert_holds(fig, "mine.csv")
        fig = schedule.draw_order([self.read("0,0,0,0,0,8,1", name="mine.csv")])
        self.assert_holds(fig, "mine.csv")

    def test_backwards_and_without_k_tiles(self):
        piece = schedule.Piece(0, 0, 0, 0, k_begin=7, k_count=8, k_step=-1)
        self.assertEqual(piece.first, 0)
        self.assert_tidy(schedule.draw_order([self.read("0,0,0,0,0,0,1", "0,1,0,1,0,0,1")]))
        self.assert_tidy(schedule.draw_pieces([self.read("0,0,0,0,0,0,1")]))


class Refusals(ScheduleTest):
    def refuse(self, phrase, path, view="pieces"):
        out = self.folder / "out.png"
        done = self.run_program("schedule.py", "--view", view, path, "-o", out)
        self.assert_refused(done, phrase)
        self.assertFalse(out.exists())

    def test_bad_files(self):
        self.refuse("cannot be read", self.folder / "missing.csv")
        self.refuse("cannot be read", self.write(b"\x89PNG\xff", "schedule.csv"))
        self.refuse("is not what --print-schedule prints", self.write("", "schedule.csv"))
        self.refuse("is not what --print-schedule prints", self.write("a,b\n", "schedule.csv"))
        self.refuse("there is nothing to do", self.file())
        self.refuse("piece 2 is 0,1,0", self.file(CUT[0], "0,1,0"))
        self.refuse("piece 1 is 0,0,0,x,0,8,1", self.file("0,0,0,x,0,8,1"))

    def test_no_schedule(self):
        self.refuse("k-tile 4 of tile 0, 1 is computed twice", self.file(*CUT, "2,0,0,1,4,1,1"))
        self.refuse("nobody computes 4 of the k-tiles", self.file(*CUT[:-1]))

    def test_too_much_for_a_picture(self):
        many = [f"{cta},0,0,{cta},0,8,1" for cta in range(schedule.MOST_TILES + 1)]
        self.refuse("401 CTAs do not fit, at most 40", self.file(*many))
        self.refuse("401 tiles do not fit, at most 400", self.file(*many), "order")

    def test_the_view_must_be_said(self):
        done = self.run_program("schedule.py", self.file(*CUT))
        self.assert_refused(done, "--view")
