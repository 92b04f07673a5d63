#!/usr/bin/env python3
"""Predicted memory of a device against what training really uses: a grid of networks, batches and numbers of ranks.

The prediction is `lockstep plan`'s for exactly the candidate that is then trained; the measurement is train's own: on a
CPU the peak resident memory of a rank's process, on a GPU the device memory in use at the end of the run (so nothing
else may run there). What libraries take is in the profile: run `lockstep probe` first. Nothing is timed.

  bench/memory_accuracy.py --lockstep build/bin/lockstep                    on processors, 1 and 2 ranks
  bench/memory_accuracy.py --lockstep .. --backend cuda --ranks 1,2,4       on GPUs
  bench/memory_accuracy.py --precisions fp32,bf16 --only lstm,gru           some networks, two precisions
  bench/memory_accuracy.py --random 20 --seed 1                             drawn dense networks (plan_accuracy.py)
  bench/memory_accuracy.py --repeat 3                                       trains each cell so often; the worst counts
  bench/memory_accuracy.py --limit 100 --ranks 1      in a control group of so many percent of the predicted bytes (root;
                                                      version 1): says which trainings the kernel ends
"""
import argparse
import json
import os
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

import plan_accuracy

from arguments import above_zero, program

GRID = [("mlp-medium", [32, 1024, 16384]), ("mlp-large", [8, 512, 4096]), ("784-1024-16", [64, 512]), ("lstm", [8, 64, 256]),
        ("gru", [8, 64, 256]), ("gpt-char", [2, 8]), ("encoder", [4, 16]), ("resnet18", [2, 4]), ("efficientnet-b0", [2, 4]),
        ("mlp-extreme", [32, 2048]), ("bert-small", [2, 4]), ("bert-small-mlm", [2, 4]), ("resnet34", [2, 4]),
        ("resnet50", [2, 4]), ("gpt2", [1, 2]), ("bert-base", [1, 2])]
GPU_GRID = [("mlp-medium", [32, 16384, 65536]), ("mlp-large", [8, 4096, 65536]), ("mlp-extreme", [32, 2048, 16384])]
GROUP = "/sys/fs/cgroup/memory/lockstep-memory-accuracy"
LIMIT_S = 900


def run(command, **how):
    try:
        return subprocess.run(command, timeout=LIMIT_S, **how)
    except subprocess.TimeoutExpired:
        sys.exit(f"not done within {LIMIT_S} s: {shlex.join(command)}")


def run_json(command):
    done = run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"failed ({done.returncode}): {shlex.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)


def section_of(name):
    """A preset, or a dense network by its widths."""
    if not name[0].isdigit():
        return {"preset": name, "loss": "mse" if name.startswith("mlp") else "cross-entropy"}
    widths = [int(width) for width in name.split("-")]
    hidden = [{"dense": {"units": width, "activation": "relu"}} for width in widths[1:-1]]
    return {"input": [widths[0]], "loss": "mse", "layers": hidden + [{"dense": {"units": widths[-1]}}]}


def grid_of(args):
    return GPU_GRID if args.backend == "cuda" else GRID


def cells_of(args):
    """(name, batch, model section, precision) of every cell."""
    if args.random:
        cells = [plan_accuracy.drawn(random.Random(f"{args.seed}-{i}"), i) for i in range(args.random)]
    else:
        cells = [(name, batch, section_of(name)) for name, batches in grid_of(args)
                 for batch in batches if not args.only or name in args.only]
    return [(*cell, precision) for cell in cells for precision in args.precisions.split(",")]


def config(section, batch, precision, backend):
    dense = "layers" in section or section["preset"].startswith("mlp")
    return {"model": section,
            "data": {"kind": "synthetic", "samples": max(2048, batch) if dense else 4 * batch,
                     "validation": 0 if batch > 1024 else 0.25},
            "train": {"batch": batch, "steps": 4, "precision": precision},
            "parallel": {"backend": backend}}


def leave():
    """Removes the control group, once the ranks of a training that was ended have left it."""
    until = time.monotonic() + 20
    while True:
        try:
            return os.rmdir(GROUP)
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def survives(command, limit):
    """Whether a training ends well in a control group with this limit."""
    os.makedirs(GROUP, exist_ok=True)
    with open(os.path.join(GROUP, "memory.limit_in_bytes"), "w") as f:
        f.write(str(limit))

    def enter():
        with open(os.path.join(GROUP, "cgroup.procs"), "w") as f:
            f.write("0")
    try:
        return run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=enter).returncode == 0
    finally:
        leave()


def measured(args, folder, name, batch, section, precision):
    """One plan for all numbers of ranks; trainings for each."""
    path = os.path.join(folder, "config.json")
    with open(path, "w") as f:
        json.dump(config(section, batch, precision, args.backend), f)
    plan = run_json([args.lockstep, "plan", path, "--ranks", str(max(args.ranks)), "--budget-ms", "200", "--no-crossover", "--json"])
    for n in args.ranks:
        rows = [row for row in plan["candidates"] if row["devices"] == n]
        if not rows:
            continue
        row = rows[0]
        if row["bytes_per_device"] is None:
            sys.exit(row["bytes_per_device_reason"])
        command = shlex.split(row["command"]) + ["--json", "--quiet"]
        runs = [run_json(command)["bytes_per_device"] for _ in range(args.repeat)]
        errors = [row["bytes_per_device"] / memory["measured"] - 1 for memory in runs]
        yield {"network": name, "what": section if name.startswith("drawn") else None, "batch": batch, "precision": precision,
               "ranks": n, "predicted": row["bytes_per_device"], "by_train": runs[0]["predicted"],
               "measured": [memory["measured"] for memory in runs], "fits": row["fits"],
               "libraries": row["memory"]["libraries"], "margin": row["memory"]["margin"],
               "survives": survives(command, row["bytes_per_device"] * args.limit // 100) if args.limit else None,
               "error": max(errors, key=abs)}


def file_to_write(text):
    folder = os.path.dirname(text) or "."
    if not os.path.isdir(folder):
        raise argparse.ArgumentTypeError(f"{folder}: no folder")
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lockstep", type=program, default="build/bin/lockstep")
    parser.add_argument("--backend", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--ranks", type=lambda text: [above_zero(n) for n in text.split(",")], default="1,2")
    parser.add_argument("--precisions", default="fp32")
    one_of = parser.add_mutually_exclusive_group()
    one_of.add_argument("--only", type=lambda text: text.split(","), help="networks of the grid, with commas")
    one_of.add_argument("--random", type=above_zero, default=0, help="so many drawn networks instead of the grid")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeat", type=above_zero, default=1)
    parser.add_argument("--limit", type=above_zero, default=0, help="percent")
    parser.add_argument("--out", type=file_to_write, help="write all cells there, as JSON")
    args = parser.parse_args()
    if args.limit and not os.access(os.path.dirname(GROUP), os.W_OK):
        parser.error("--limit needs root and control groups of version 1")
    unknown = set(args.only or ()) - {name for name, _ in grid_of(args)}
    if unknown:
        parser.error(f"--only: no such cell: {', '.join(sorted(unknown))}")
    cells = []
    print(f"{'network':>15} {'batch':>6} {'as':>5} {'ranks':>5} {'predicted MB':>13} {'measured MB':>12} {'error':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for cell in cells_of(args):
            for c in measured(args, folder, *cell):
                cells.append(c)
                low, high = min(c["measured"]) / 1e6, max(c["measured"]) / 1e6
                print(f"{c['network']:>15} {c['batch']:>6} {c['precision']:>5} {c['ranks']:>5} {c['predicted'] / 1e6:13.1f} "
                      f"{high:12.1f} {100 * c['error']:+7.2f} %" + (f"  from {low:.1f}" if args.repeat > 1 else "") +
                      ("  ended by the kernel" if c["survives"] is False else ""), flush=True)
            if args.out:
                with open(args.out, "w") as f:
                    json.dump({"backend": args.backend, "cells": cells}, f, indent=1)
    errors = sorted(c["error"] for c in cells)
    if not cells:
        sys.exit("no cell has so many ranks")
    within = sum(abs(error) <= 0.02 for error in errors)
    print(f"{len(cells)} cells, {within} within 2 %, {100 * errors[0]:+.2f} to {100 * errors[-1]:+.2f} %, "
          f"median {100 * statistics.median(abs(error) for error in errors):.2f} %")
    if args.limit:
        print(f"{sum(c['survives'] for c in cells)} of {len(cells)} survive {args.limit} % of the predicted bytes")


if __name__ == "__main__":
    main()
