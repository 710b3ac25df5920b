"""The timelines: what they hold, which stretch they show, and what they refuse."""

import json

from matplotlib import colors

from records import SAMPLE, ProgramTest, changed, trace, without
from test_pictures import PictureTest

import results
import timeline
import traces

SAMPLE_TRACE = SAMPLE / "trace_lesson03.json"


def consumers(tiles, epilogue, shift):
    """Two consumers with `tiles` tiles of four products; the second is `shift` behind."""
    tracks = {}
    for consumer in range(2):
        now, spans = consumer * shift, []
        for _ in range(tiles):
            for _ in range(4):
                spans += [("wait full", now, now + 0.1), ("multiply", now + 0.1, now + 1)]
                now += 1
            spans.append(("epilogue", now, now + epilogue))
            now += epilogue
        tracks[0, 0, f"consumer {consumer}"] = spans
    return tracks


class TimelineTest(PictureTest):
    def file(self, content, name="trace.json"):
        return self.write(json.dumps(content), name)

    def panel(self, content, begin=None, end=None, sm=None, cta=None):
        path = self.file(content)
        read = traces.read(path)
        tracks = timeline.choose(path, read, sm, cta)
        window = timeline.default_window(tracks) if begin is None else (begin, end)
        return timeline.Panel(path, read, tracks, *window)


class Pictures(TimelineTest):
    def test_sample(self):
        out = self.folder / "out.png"
        done = self.run_program("timeline.py", SAMPLE_TRACE, "-o", out)
        self.assertEqual((done.returncode, done.stderr, done.stdout), (0, "", f"{out}\n"))
        self.assert_draws(out, *(timeline.COLOURS[name] for name in ("multiply", "epilogue")))

    def test_model_time_is_called_so(self):
        fig = timeline.draw([self.panel(json.loads(SAMPLE_TRACE.read_text()))])
        self.assert_tidy(fig)
        self.assert_holds(
            fig, "Who does what, and when: 03 tma", "model time, in thousands",
            "On the emulator, in model time: an order of events, and no measurement",
            "256³, tile 128x128, SM 0, CTA 0", "thread 0", "any multiply",
        )  # fmt: skip

    def test_a_gpu_is_named_with_its_clock(self):
        fig = timeline.draw([self.panel(trace())])
        self.assert_tidy(fig)
        self.assert_holds(fig, "µs", "4096³, tile 128x128, SM 0, CTA 0")
        footer = "\n".join(artist.get_text() for artist in fig.texts)
        self.assertIn("sample, not measured", footer)
        self.assertIn("SM clock 1755 MHz", footer)
        self.assertNotIn("model", footer)

    def test_lost_spans_are_mentioned(self):
        fig = timeline.draw([self.panel(trace(lost_spans=7))])
        self.assertIn("some spans were not recorded", fig.texts[2].get_text())

    def test_spans_stand_where_they_were(self):
        fig = timeline.draw([self.panel(trace())])
        (axes,) = fig.axes
        (multiply,) = [
            bars for bars in axes.collections
            if bars.get_paths()
            and colors.same_color(bars.get_facecolor()[0], timeline.COLOURS["multiply"])
            and bars.get_paths()[0].get_extents().y0 < 0.5
        ]  # fmt: skip
        extents = multiply.get_paths()[0].get_extents()
        self.assertAlmostEqual(extents.x0, 1)
        self.assertAlmostEqual(extents.x1, 1.5)

    def test_a_gap_and_its_filling(self):
        together = self.panel(trace(consumers(tiles=2, epilogue=4, shift=0)))
        self.assertEqual(len(together.multiplying()), 8)
        self.assertAlmostEqual(together.share_multiplying(), 2 * 4 * 0.9 / 16)
        taking_turns = self.panel(trace(consumers(tiles=2, epilogue=4, shift=4)))
        self.assertAlmostEqual(taking_turns.share_multiplying(), 4 * 4 * 0.9 / 20)
        fig = timeline.draw([together, taking_turns])
        self.assert_tidy(fig)
        self.assert_holds(fig, "45 %\nof the time", "72 %\nof the time", "consumer 1")

    def test_the_legend_has_what_is_there(self):
        fig = timeline.draw([self.panel(trace(consumers(1, 4, 0)))])
        (legend,) = fig.legends
        labels = [label.get_text() for label in legend.get_texts()]
        self.assertEqual(labels, ["multiply", "epilogue", "wait full"])

    def test_ctas_on_an_sm_and_one_of_them(self):
        spans = [("wait full", 0, 1), ("multiply", 1, 2)]
        ctas = trace({(cta, cta % 2, "thread 0"): spans for cta in range(6)})
        fig = timeline.draw([self.panel(ctas)])
        self.assert_tidy(fig)
        self.assert_holds(fig, "CTA 0, thread 0", "CTA 4, thread 0")
        self.assertEqual([track.cta for track in self.panel(ctas, sm=1).rows], [1, 3, 5])
        self.assertEqual([track.cta for track in self.panel(ctas, cta=3).rows], [3])

    def test_a_long_trace_is_shown_about_its_first_gap(self):
        long = self.panel(trace(consumers(tiles=40, epilogue=4, shift=0)))
        self.assertLess(long.end - long.begin, 80)
        self.assertTrue(long.begin <= 4 and long.end >= 8)
        late = consumers(tiles=2, epilogue=4, shift=0)
        for role, spans in late.items():
            lead = [("multiply", begin, begin + 1) for begin in range(400)]
            late[role] = lead + [(name, 400 + a, 400 + b) for name, a, b in spans]
        late = self.panel(trace(late))
        self.assertTrue(late.begin > 300 and late.begin < 404 and late.end > 408)

    def test_many_rows_and_panels_stay_tidy(self):
        spans = [("load", 0.0, 0.02), ("wait empty", 0.02, 1), ("store", 1, 2), ("wait turn", 2, 3),
                 ("epilogue", 3, 4), ("wait full", 4, 5), ("multiply", 5, 6), ("schedule", 6, 7)]
        many = {(1000 + cta, 0, f"consumer {cta % 3}"): spans for cta in range(timeline.MOST_ROWS)}
        panels = [self.panel(trace(many)), self.panel(trace(), 0, 6), self.panel(trace(many))]
        self.assert_tidy(timeline.draw(panels))

    def test_windows_of_the_same_length(self):
        first = self.file(trace(), "first.json")
        second = self.file(trace(consumers(2, 4, 4), lesson=8, name="ping_pong"), "second.json")
        out = self.folder / "out.png"
        done = self.run_program("timeline.py", first, second, "-o", out)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assert_draws(out, timeline.COLOURS["epilogue"])


class BadTraces(TimelineTest):
    SPAN = "traceEvents.2"
    BAD = [
        ("empty", "", "the file is empty"),
        ("truncated", json.dumps(trace())[:-40], "truncated"),
        ("binary", b"\x89PNG\xff", "not a text file"),
        ("a record", (SAMPLE / "lesson03.json").read_text(), "there are no traceEvents"),
        ("another schema", trace(schema=2), "schema 2 of a trace is not known"),
        ("another unit", trace(time_unit="seconds"), 'time_unit "seconds" is not known'),
        ("no record", without(trace(), "otherData.record"), "otherData.record is missing"),
        ("a wrong D", changed(trace(), "otherData.record.verdict.status", "fail"), "did not pass"),
        ("no span", trace({}), "the trace has no span"),
        ("no name of a span", changed(trace(), f"{SPAN}.name", None), "name is null"),
        ("another span", changed(trace(), f"{SPAN}.name", "sleep"), 'span "sleep" is not known'),
        ("another phase", changed(trace(), f"{SPAN}.ph", "B"), 'of phase "B" is not known'),
        ("NaN", changed(trace(), f"{SPAN}.ts", float("nan")), "traceEvents[2].ts is nan"),
        ("null", changed(trace(), f"{SPAN}.dur", None), "traceEvents[2].dur is null"),
        ("a string", changed(trace(), f"{SPAN}.ts", "0"), "ts is a string, not a number"),
        ("a negative length", changed(trace(), f"{SPAN}.dur", -1), "lasts -1 µs"),
        ("before the start", changed(trace(), f"{SPAN}.ts", -1), "at -1 lasts"),
        ("no step", changed(trace(), f"{SPAN}.args", {}), "args.step is missing"),
        ("an overlap", changed(trace(), "traceEvents.3.ts", 0.5),
         'spans of CTA 0, thread 0, overlap: "wait full" 0 and "multiply" 1'),
        ("a nameless thread", changed(trace(), f"{SPAN}.tid", 9), "thread 9 has spans and no name"),
        ("a nameless process", changed(trace(), f"{SPAN}.pid", 9), "process 9, thread 1"),
    ]  # fmt: skip

    def refuse(self, phrase, *arguments):
        old = self.write("an old picture", "old.png")
        done = self.run_program("timeline.py", *arguments, "-o", old)
        self.assert_refused(done, phrase)
        self.assertEqual(old.read_text(), "an old picture")

    def test_refused(self):
        for what, content, phrase in self.BAD:
            with self.subTest(what):
                raw = isinstance(content, (str, bytes))
                path = self.write(content, "trace.json") if raw else self.file(content)
                self.refuse(phrase, path)

    def test_what_was_not_traced(self):
        path = self.file(trace())
        self.refuse("SM 3 was not traced; there is SM 0", path, "--sm", "3")
        self.refuse("CTA 7 was not traced; there is CTA 0", path, "--cta", "7")
        self.refuse("nothing happens from 5 to 6 µs", path, "--window", "5:6")
        self.refuse("missing.json: cannot be read", self.folder / "missing.json")

    def test_too_many_rows(self):
        spans = [("multiply", 0, 1)]
        rows = {(cta, 0, "thread 0"): spans for cta in range(timeline.MOST_ROWS + 1)}
        self.refuse("25 rows do not fit, at most 24", self.file(trace(rows)))

    def test_two_gpus(self):
        other = changed(trace(), "otherData.record.machine.gpu", "NVIDIA H100")
        self.refuse("different GPUs", self.file(trace()), self.file(other, "other.json"))

    def test_usage(self):
        for arguments, phrase in (
            ([], "FILE"),
            ([SAMPLE_TRACE, "--window", "3:2"], "3:2 is not like 1.5:4"),
            ([SAMPLE_TRACE, "--window", "all"], "all is not like 1.5:4"),
            ([SAMPLE_TRACE, "--cta", "-1"], "--cta"),
            ([SAMPLE_TRACE, "--cta", "1", "--sm", "1"], "do not go together"),
        ):
            with self.subTest(phrase):
                self.refuse(phrase, *arguments)

    def test_other_programs_leave_traces_alone(self):
        self.assertTrue(SAMPLE_TRACE.exists())
        self.assertTrue(results.load([SAMPLE]).runs)
        done = self.run_program("ladder.py", SAMPLE_TRACE, "-o", self.folder / "out.png")
        self.assert_refused(done, "a timeline (--trace); plots/timeline.py draws it")


class Surroundings(TimelineTest):
    def test_without_matplotlib(self):
        package = self.folder / "matplotlib"
        package.mkdir()
        (package / "__init__.py").write_text("raise ModuleNotFoundError('no such module')")
        done = self.run_program(
            "timeline.py", SAMPLE_TRACE, "-o", self.folder / "out.png",
            environment={"PYTHONPATH": str(self.folder)},
        )  # fmt: skip
        self.assertEqual(done.returncode, 3)
        self.assertIn("make setup", done.stderr)
