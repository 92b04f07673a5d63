#!/usr/bin/env python3
"""straggler.py LOCKSTEP [RUNS [PERCENT]] [--paced | --backend cuda]: is a slowed rank named, how soon, and is nobody accused
falsely?

Trains with 2 bound CPU ranks, or on 2 GPUs, RUNS times (default 50) with a rank whose steps take PERCENT (default 11) longer
from a step on, and RUNS times without. Looks at the records of the event log, one each 10 ms, from some hundred steps before the
slow step on.
The first record that names the slowed rank counts, and none where one before the slow step named anybody. A run without one in
which a record names a rank has a false alarm. Those whose only causes are "other load" and "slower processor" are counted
apart: then the processor was slower, not the rank.

Each process needs a processor of its own, and one that is as fast at all times: on a machine with other work, or a virtual one
that shares its cores, the figures say little. --paced takes that speed out: each rank's steps, whose computation is a small part
of it, are filled up to 4 ms, and PERCENT is of that. A step is filled by what the one before left, so what computation varies by
remains.
"""
import argparse
import collections
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from arguments import above_zero, program

CAUSES = ["input", "heat", "clock", "other load", "own work", "slower processor"]
NOT_THE_RANK = {"other load", "slower processor"}
CONFIG = """
model: {{input: [784], loss: mse, layers: [{{dense: {{units: {units}, activation: relu}}}}, {{dense: {{units: {units}, activation: relu}}}}, {{dense: {{units: 10}}}}]}}
data: {{kind: synthetic, samples: 4096}}
train: {{batch: {batch}, steps: {steps}, evaluate_every: 0}}
parallel: {{{parallel}, ranks: 2}}
monitor: {{dir: {dir}/monitor, every_s: 0.01, alerts: []}}
"""


CPU, GPU = "backend: cpu, threads: 1, bind: true", "backend: cuda"


def records(program, fault, look_from, **run):
    """The records of one run with this fault, from step look_from on."""
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder, "c.yaml")
        config.write_text(CONFIG.format(dir=folder, **run))
        environment = dict(os.environ, **({"LOCKSTEP_FAULT": f"{fault} {folder}/once"} if fault else {}))
        done = subprocess.run([program, "train", config, "--quiet"], env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stderr)
        lines = [json.loads(line) for line in open(f"{folder}/monitor/events.jsonl") if '"kind":"record"' in line]
        return [line for line in lines if line.get("step", 0) >= look_from]


def cause(line):
    return CAUSES[int(line["straggler_cause"])]


def counted(causes):
    return ", ".join(f"{n} {name}" for name, n in collections.Counter(causes).most_common()) or "none"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", metavar="LOCKSTEP", type=program)
    parser.add_argument("runs", metavar="RUNS", nargs="?", type=above_zero, default=50)
    parser.add_argument("percent", metavar="PERCENT", nargs="?", type=above_zero, default=11)
    one_of = parser.add_mutually_exclusive_group()
    one_of.add_argument("--paced", action="store_true")
    one_of.add_argument("--backend", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args()
    runs, pace = options.runs, "@4000" if options.paced else ""
    slow_from, run_of = 600, dict(parallel=CPU, batch=128, steps=1200, units=512)
    if options.paced:
        slow_from, run_of = 150, dict(parallel=CPU, batch=128, steps=250, units=64)
    elif options.backend == "cuda":  # 5 ms a step on an H200
        slow_from, run_of = 150, dict(parallel=GPU, batch=4096, steps=200, units=4096)
    steps = run_of["steps"]
    after, ratios, causes, early, false, named_clean, clean_causes = [], [], [], 0, 0, 0, []
    print("steps until the slowed rank was named; of a run without one, records that name somebody:", end="", flush=True)
    for run in range(2 * runs):
        slow = run % 2 == 0
        fault = f"slow{options.percent}{pace} 1 {slow_from if slow else steps}" if slow or pace else ""
        lines = records(options.program, fault, slow_from // 2, **run_of)
        named = [line for line in lines if line.get("straggler") == 1]
        if slow:
            before = any(line["step"] < slow_from for line in named)
            early += before
            right = [line for line in named if not before and line["straggler_rank"] == 1]
            after.append(right[0]["step"] - slow_from if right else steps)
            ratios += [line["straggler_ratio"] for line in lines[-1:] if "straggler_ratio" in line]
            causes += [cause(line) for line in right[:1]]
            print(f" {after[-1]}", end="", flush=True)
        else:
            named_clean += bool(named)
            false += any(cause(line) not in NOT_THE_RANK for line in named)
            clean_causes += [cause(line) for line in named]
            print(f"/{len(named)}", end="", flush=True)
    within = sum(x <= 20 for x in after)
    print(f"\n{runs} runs with a slowed rank: {within} named within 20 steps, median {statistics.median(after):.0f}, longest {max(after)} steps; "
          f"own time {statistics.median(ratios):.3f} times the other's; causes: {counted(causes)}; {early} named somebody before; "
          f"{runs} runs without: {named_clean} named somebody, {false} of them falsely; causes of their records: {counted(clean_causes)}")


main()
