#!/usr/bin/env python3
"""Where a step's time goes: the tasks of a trace (lockstep train --trace FILE) added up by op, median over its steps.
  bench/trace_parts.py FILE [--top 12] [--by op|name]
"""
import argparse
import collections
import json
import statistics


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace")
    parser.add_argument("--top", type=int, default=12)
    parser.add_argument("--by", choices=("op", "name"), default="op")
    args = parser.parse_args()
    with open(args.trace, encoding="utf-8") as file:
        events = [e for e in json.load(file)["traceEvents"] if e.get("ph") == "X" and e["pid"] == 0]
    steps = collections.defaultdict(lambda: collections.defaultdict(lambda: [0, 0.0, 0, 0]))
    for e in events:
        if "step" not in e["args"]:
            continue
        name = e["name"] if args.by == "name" else e["name"].split()[-1]
        row = steps[e["args"]["step"]][name]
        for i, value in enumerate((1, e["dur"], e["args"].get("flops", 0), e["args"].get("bytes", 0))):
            row[i] += value
    rows = []
    for name in {n for s in steps.values() for n in s}:
        of = [s[name] for s in steps.values() if name in s]
        rows.append((statistics.median(r[1] for r in of), of[-1][0], of[-1][2], of[-1][3], name))
    rows.sort(reverse=True)
    total = sum(r[0] for r in rows)
    print(f"{len(steps)} steps, {total:.0f} us of tasks in one")
    for us, count, flops, size, name in rows[:args.top]:
        print(f"{us:10.1f} us {100 * us / total:5.1f} % {count:4} x {name:24} {flops / us / 1e6:8.2f} TFLOP/s {size / us / 1e3:7.0f} GB/s")


if __name__ == "__main__":
    main()
