#!/usr/bin/env python3
"""straggler.py LOCKSTEP [RUNS [PERCENT]]: is a slowed rank named, how soon, and is nobody accused falsely?

Trains with 2 bound CPU ranks RUNS times (default 50) with a rank whose steps take PERCENT (default 11) longer from a step on,
and RUNS times without. Looks at the records of the event log,
one each 10 ms, from the slow step on: the first record that names a straggler counts. A run without a slowed rank in which a
record names one with another cause than "other load" has a false alarm; those with that cause are counted beside it: then another
program did take the processor. Each process needs a processor of its own; on a machine with other work the figures say little.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

CAUSES = ["input", "heat", "clock", "other load", "own work"]
SLOW_FROM, STEPS = 600, 1200
CONFIG = """
model: {{input: [784], loss: mse, layers: [{{dense: {{units: 512, activation: relu}}}}, {{dense: {{units: 512, activation: relu}}}}, {{dense: {{units: 10}}}}]}}
data: {{kind: synthetic, samples: 4096}}
train: {{batch: 128, steps: {steps}, evaluate_every: 0, checkpoint: {{dir: {dir}/run}}}}
parallel: {{backend: cpu, threads: 1, ranks: 2, bind: true}}
monitor: {{dir: {dir}/monitor, every_s: 0.01, alerts: []}}
"""


def records(program, slow):
    """[(t, step, straggler, cause, rank, ratio, own_us)] of one run, and the wall time at which rank 1 became slow."""
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder, "c.yaml")
        config.write_text(CONFIG.format(dir=folder, steps=STEPS))
        environment = dict(os.environ)
        if slow:
            environment.update(LOCKSTEP_FAULT=f"slow{slow} 1 {SLOW_FROM} {folder}/once")
        done = subprocess.run([program, "train", config, "--quiet"], env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stderr)
        lines = [json.loads(line) for line in open(f"{folder}/monitor/events.jsonl") if '"kind":"record"' in line]
        return [line for line in lines if line.get("step", 0) >= SLOW_FROM - 300]


def main():
    program = sys.argv[1]
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 50
    percent = int(sys.argv[3]) if len(sys.argv) > 3 else 11
    after, ratios, causes, false, loaded, early = [], [], [], 0, 0, 0
    for run in range(2 * runs):
        slow = percent if run % 2 == 0 else 0
        lines = records(program, slow)
        named = [line for line in lines if line.get("straggler") == 1]
        if slow:
            early += any(line["step"] < SLOW_FROM for line in named)
            right = [line for line in named if line["step"] >= SLOW_FROM and line["straggler_rank"] == 1]
            after.append(right[0]["step"] - SLOW_FROM if right else STEPS)
            ratios += [line["straggler_ratio"] for line in lines[-1:] if "straggler_ratio" in line]
            causes += [CAUSES[int(right[0]["straggler_cause"])]] if right else []
        else:
            false += any(CAUSES[int(line["straggler_cause"])] != "other load" for line in named)
            loaded += bool(named)
    within = [x for x in after if x <= 20]
    print(f"{runs} runs with a slowed rank: {len(within)} named within 20 steps, median {statistics.median(after):.0f}, longest {max(after)} steps; "
          f"own time {statistics.median(ratios):.3f} times the other's; causes: " + ", ".join(f"{causes.count(c)} {c}" for c in CAUSES if c in causes))
    print(f"{early} of them named somebody before; {runs} runs without: {loaded} named somebody, {false} of them falsely")


main()
