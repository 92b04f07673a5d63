#!/usr/bin/env python3
"""Predicted memory of a device against what training really uses: a grid of networks, batches and numbers of ranks.

The prediction is `lockstep plan`'s for exactly the candidate that is then trained; the measurement is train's own: on a
CPU the peak resident memory of a rank's process, on a GPU the device memory in use at the end of the run (so nothing
else may run there). What libraries take is in the profile: run `lockstep probe` first. Nothing is timed.

  bench/memory_accuracy.py --lockstep build/bin/lockstep                    on processors, 1 and 2 ranks
  bench/memory_accuracy.py --lockstep .. --backend cuda --ranks 1,2,4       on GPUs
"""
import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile

GRID = [("mlp-medium", [32, 1024, 16384]), ("mlp-large", [8, 512, 4096]), ("mlp-extreme", [32, 2048]), ("resnet18", [2, 4]),
        ("efficientnet-b0", [2, 4]), ("resnet50", [2]), ("lstm", [8, 64, 256]), ("gru", [8, 64, 256]), ("gpt-char", [2, 8])]
GPU_GRID = [("mlp-medium", [32, 16384, 65536]), ("mlp-large", [8, 4096, 65536]), ("mlp-extreme", [32, 2048, 16384])]


def run_json(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        sys.exit(f"failed ({done.returncode}): {shlex.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)


def config(preset, batch, backend):
    dense = preset.startswith("mlp")
    return {"model": {"preset": preset, "loss": "mse" if dense else "cross-entropy"},
            "data": {"kind": "synthetic", "samples": max(2048, batch) if dense else 4 * batch,
                     "validation": 0 if batch > 1024 else 0.25},
            "train": {"batch": batch, "steps": 4},
            "parallel": {"backend": backend}}


def cells_of(args, folder, preset, batch, ranks):
    """One plan for all numbers of ranks; a training for each."""
    path = os.path.join(folder, "config.json")
    with open(path, "w") as f:
        json.dump(config(preset, batch, args.backend), f)
    plan = run_json([args.lockstep, "plan", path, "--ranks", str(max(ranks)), "--budget-ms", "2000", "--json"])
    for n in ranks:
        rows = [row for row in plan["candidates"] if row["devices"] == n]
        if not rows:
            continue
        row = rows[0]
        if row["bytes_per_device"] is None:
            sys.exit(row["bytes_per_device_reason"])
        memory = run_json(shlex.split(row["command"]) + ["--json", "--quiet"])["bytes_per_device"]
        yield {"preset": preset, "batch": batch, "ranks": n, "predicted": row["bytes_per_device"],
               "by_train": memory["predicted"], "measured": memory["measured"], "fits": row["fits"],
               "libraries": row["memory"]["libraries"],
               "error": row["bytes_per_device"] / memory["measured"] - 1}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lockstep", default="build/bin/lockstep")
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("--out", help="write all cells there, as JSON")
    args = parser.parse_args()
    cells = []
    print(f"{'network':>12} {'batch':>6} {'ranks':>5} {'predicted MB':>13} {'measured MB':>12} {'error':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for preset, batches in GPU_GRID if args.backend == "cuda" else GRID:
            for batch in batches:
                for c in cells_of(args, folder, preset, batch, [int(n) for n in args.ranks.split(",")]):
                    cells.append(c)
                    print(f"{preset:>12} {batch:>6} {c['ranks']:>5} {c['predicted'] / 1e6:13.1f} {c['measured'] / 1e6:12.1f} "
                          f"{100 * c['error']:+7.2f} %", flush=True)
    worst = max(abs(c["error"]) for c in cells)
    within = sum(abs(c["error"]) <= 0.02 for c in cells)
    print(f"{len(cells)} cells, {within} within 2 %, worst {100 * worst:.2f} %")
    if args.out:
        with open(args.out, "w") as f:
            json.dump({"backend": args.backend, "cells": cells, "worst": worst}, f, indent=1)


if __name__ == "__main__":
    main()
