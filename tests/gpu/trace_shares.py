"""Prints what a trace file (--trace) says of each role, as docs/claims.md quotes it.

Usage: python3 tests/gpu/trace_shares.py FILE
For each track: of the time from its CTA's first span to its last, what each kind of span takes, and
how long one lasts. And the share in which no track multiplies, from the CTA's first multiply to the
end of its last one. Medians over the CTAs.
"""

import collections
import json
import pathlib
import statistics
import sys


def spans_of(trace):
    """The spans of each CTA, and the names of the tracks."""
    spans = collections.defaultdict(list)
    tracks = {}
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            spans[event["pid"]].append(event)
        elif event["name"] == "thread_name":
            tracks[event["pid"], event["tid"]] = event["args"]["name"]
    return spans, tracks


def idle_share(spans):
    """Of the time from the first of these spans to the end of the last, what none of them covers."""
    ends = sorted((span["ts"], span["ts"] + span["dur"]) for span in spans)
    first, end, idle = ends[0][0], ends[0][0], 0
    for begin, stop in ends:
        idle += max(begin - end, 0)
        end = max(end, stop)
    return idle / (end - first)


def main():
    spans, tracks = spans_of(json.loads(pathlib.Path(sys.argv[1]).read_text()))
    shares = collections.defaultdict(list)
    lengths = collections.defaultdict(list)
    for cta, events in spans.items():
        whole = max(e["ts"] + e["dur"] for e in events) - min(e["ts"] for e in events)
        sums = collections.Counter()
        for event in events:
            what = f"{tracks[cta, event['tid']]}: {event['name']}"
            sums[what] += event["dur"]
            lengths[what].append(event["dur"] * 1000)
        for what, total in sums.items():
            shares[what].append(total / whole)
        multiplies = [event for event in events if event["name"] == "multiply"]
        if multiplies:
            shares["nobody multiplies"].append(idle_share(multiplies))
    for what in sorted(shares):
        span = f", median span {statistics.median(lengths[what]):.0f} ns" if what in lengths else ""
        print(f"  {what}: {100 * statistics.median(shares[what]):.1f} % of the time{span}")


if __name__ == "__main__":
    main()
