#!/usr/bin/env python3
"""How far from the truth is `lockstep plan`? For every cell, a network and a batch, the prediction is written to a file
first. Then the cell is trained by the command that its own row of the plan gives. The truth is what a user sees: the
median of that run's steps (and for the regret of the choice their mean, because a run lasts as many means as it has steps).

On a CPU: one rank of all cores and one of one core against two ranks of half of the cores each (--ranks). On GPUs
(--backend cuda): one GPU against two and four, as many as there are, for each of --precisions, with peer access and
without (--peer; NCCL_P2P_DISABLE=1). Needs a profile of this machine (lockstep probe; for --peer off made with that setting
too). On a machine that others use, truth and prediction see different loads: --repeat 2 says how far two runs of one
command lie apart.

  bench/plan_accuracy.py --cells 40 --seed 1 --ranks 2     networks that nobody chose, drawn from the seed: depth 1 to 6,
      widths 2 to 1024 (on GPUs 2048), any activation, dropout, both losses, batches 1 to 512 (4096). 8 minutes; called
      again with the same --out, it goes on
  bench/plan_accuracy.py --quick                                                    8 cells of a grid
  bench/plan_accuracy.py --lockstep build/release/bin/lockstep --out accuracy       the grid of 32 cells
  bench/plan_accuracy.py --backend cuda --precisions fp32,tf32 --peer on,off        the grid of GPUs
  bench/plan_accuracy.py --families --backend cuda --precisions bf16 --limit 200    recurrent networks, transformers and
      convolutions, two batches each
"""
import argparse
import json
import math
import os
import random
import shlex
import statistics
import subprocess
import sys
import time

# widths: inputs, hidden layers, outputs. The study's three networks, and the same with smaller widths.
MEDIUM = ([799, 256, 128, 64, 192], 0.2)
MEDIUM_2 = ([400, 128, 64, 32, 96], 0.2)
LARGE = ([4608, 1024, 1024, 512, 512, 256, 768], 0.3)
LARGE_4 = ([1152, 256, 256, 128, 128, 64, 192], 0.3)
EXTREME = ([4096, 8192, 6144, 4096, 2048, 1024, 512], 0)
EXTREME_4 = ([1024, 2048, 1536, 1024, 512, 256, 128], 0)
EXTREME_8 = ([512, 1024, 768, 512, 256, 128, 64], 0)
NETWORKS = {"medium": MEDIUM, "medium/2": MEDIUM_2, "large/4": LARGE_4, "large": LARGE, "extreme/8": EXTREME_8,
            "extreme/4": EXTREME_4, "extreme": EXTREME}
ACTIVATIONS = ["none", "relu", "gelu", "tanh", "sigmoid"]
BATCHES = {
    "cpu": {"medium": [8, 32, 128, 512, 2048, 4096], "medium/2": [8, 64, 256, 1024, 4096],
            "large/4": [8, 32, 128, 512, 2048, 4096], "large": [8, 32, 128, 512],
            "extreme/8": [8, 32, 128, 512, 2048, 4096], "extreme/4": [8, 64, 512], "extreme": [8, 32]},
    "cuda": {"medium": [16, 128, 1024, 4096, 16384], "large": [8, 64, 512, 2048, 16384], "large/4": [128, 4096],
             "extreme/4": [64, 2048], "extreme": [64, 1024]},
}
# Presets of other families; what they need to train on synthetic data.
FAMILIES = {"lstm": [32, 256], "gru": [32, 256], "encoder": [32, 256], "gpt-char": [16, 64], "gpt2": [4, 16],
            "bert-small": [8, 32], "bert-base": [8, 32], "resnet18": [32, 256], "resnet34": [32, 128],
            "resnet50": [32, 128], "efficientnet-b0": [32, 128]}
FAMILIES_HOST = {"lstm": [8, 64], "gru": [8, 64], "encoder": [4, 16], "resnet18": [2, 4], "efficientnet-b0": [2, 4],
                 "bert-small": [2, 4]}
QUICK = [("medium", 8), ("medium", 128), ("medium", 2048), ("large/4", 32), ("large/4", 1024), ("extreme/8", 8),
         ("extreme/8", 512), ("large", 32)]


def cells(args):
    """(name, batch, model section) of every cell."""
    if args.cells:
        most = (2048, 4096) if args.backend == "cuda" else (1024, 512)
        return [drawn(random.Random(f"{args.seed}-{i}"), f"{args.seed}-{i}", *most) for i in range(args.cells)]
    families = FAMILIES if args.backend == "cuda" else FAMILIES_HOST
    named = QUICK if args.quick else [(name, b) for name, sizes in families.items() for b in sizes] if args.families else [(name, b) for name, sizes in BATCHES[args.backend].items() for b in sizes]
    if args.only:
        named = [(name, int(batch)) for name, batch in (cell.rsplit(":", 1) for cell in args.only.split(","))]
    return [(name, batch, model(name)) for name, batch in named]


def model(name):
    if name in FAMILIES:
        return {"preset": name, "loss": "cross-entropy"}
    widths, dropout = NETWORKS[name]
    hidden = [{"dense": {"units": width, "activation": "relu", "dropout": dropout}} for width in widths[1:-1]]
    return {"input": [widths[0]], "loss": "mse", "layers": hidden + [{"dense": {"units": widths[-1]}}]}


def drawn(draw, number, widest=2048, largest=4096):
    """Widths and batch are as likely between 2 and 4 as between 256 and 512."""
    def size(low, high):
        return round(2 ** draw.uniform(math.log2(low), math.log2(high)))
    dropout = draw.choice([0, 0, 0.1, 0.3])
    activation = draw.choice(ACTIVATIONS)
    hidden = [{"dense": {"units": size(2, widest), "activation": activation, "dropout": dropout}}
              for _ in range(draw.randint(0, 5))]
    loss = draw.choice(["mse", "cross-entropy"])
    return f"drawn-{number}", size(1, largest), {
        "input": [size(2, widest)], "loss": loss, "layers": hidden + [{"dense": {"units": size(2, widest)}}]}


def config(args, section, batch, precision):
    return {
        "model": section,
        "data": {"kind": "synthetic", "samples": max(2 * batch if "preset" in section else 4096, batch)},
        "train": {"batch": batch, "steps": 100, "precision": precision, "optimizer": {"name": "adam", "lr": 1e-5}},
        "parallel": {"backend": args.backend},
    }


def describe(section):
    if "preset" in section:
        return "a preset"
    dense = [layer["dense"] for layer in section["layers"]]
    widths = "-".join(str(n) for n in section["input"] + [d["units"] for d in dense])
    return f"{widths} {dense[0].get('activation', '-')} {dense[0].get('dropout', 0):g} {section['loss']}"


def environment(peer):
    env = dict(os.environ)
    env.pop("NCCL_P2P_DISABLE", None)
    if peer == "off":
        env["NCCL_P2P_DISABLE"] = "1"
    return env


def run_json(args, command, peer):
    """subprocess.TimeoutExpired: --limit is up. The program and the ranks that it started then end."""
    left = args.until - time.monotonic()
    own = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(peer))
    try:
        out, err = own.communicate(timeout=max(0, min(left, 600)))
    except subprocess.TimeoutExpired:
        own.terminate()
        own.communicate()
        raise
    done = subprocess.CompletedProcess(command, own.returncode, out, err)
    if done.returncode != 0:
        sys.exit(f"failed ({done.returncode}): {shlex.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)


def variant(args, row):
    """What a row of the plan is called here: a number of GPUs, or ranks x threads."""
    return str(row["devices"]) if args.backend == "cuda" else f"{row['devices']}x{row['threads_per_rank']}"


def predict(args, name, batch, section, precision, peer):
    path = os.path.join(args.out, f"{name.replace('/', '-')}-{batch}-{precision}.json")
    with open(path, "w") as f:
        json.dump(config(args, section, batch, precision), f, indent=1)
    start = time.monotonic()
    plan = run_json(args, [args.lockstep, "plan", path, "--json", *shlex.split(args.plan_options)], peer)
    took = time.monotonic() - start
    rows = {}
    for row in plan["candidates"]:
        if row["priced"] and row["fits"] and row["devices"] in args.devices:
            rows.setdefault(variant(args, row), row)
    if {row["devices"] for row in rows.values()} != {n for n in args.devices if n <= batch}:
        print(f"{name:>10} {batch:>5} {args.devices} devices could not all be priced: {plan['reasons'][-1]}", flush=True)
        return None
    return {"network": name, "what": describe(section), "batch": batch, "precision": precision, "peer": peer,
            "plan_s": took, "busy": plan["busy_share"], "crossover": plan["crossover_batch"],
            "rows": {key: {k: row[k] for k in ("devices", "threads_per_rank", "options", "step_time_us", "step_mean_us",
                                               "step_parts_us", "bytes_per_device", "command")} for key, row in rows.items()}}


def measure(args, row, peer):
    """Trains for about --seconds, and for enough steps to have a median."""
    mean = row["step_mean_us"]["predicted"]
    least = 5 if mean > 1e6 else 12 if mean > (2e4 if args.backend == "cuda" else 1e5) else 40
    steps = max(least, min(100000, int(args.seconds * 1e6 / mean)))
    command = shlex.split(row["command"]) + ["--set", f"train.steps={steps}", "--json", "--quiet"]
    report = run_json(args, command, peer)
    return report["step_time_us"], report["step_parts_us"], report["bytes_per_device"]["measured"]


def quantile(values, q):
    values = sorted(values)
    place = q * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (place - low) * (values[high] - values[low])


def regret(cells, said, true):
    """By how much the row with the least of `said` takes longer than the best one, for each cell."""
    return [true(min(rows, key=said)) / min(true(r) for r in rows) - 1 for rows in (list(c["rows"].values()) for c in cells)]


def summarise(args, cells):
    """One line for each number of devices, and one for all."""
    rows = [row for cell in cells for row in cell["rows"].values()
            if not (row["devices"] == 1 and cell["peer"] == "off" and "on" in args.peer.split(","))]  # as with peer access
    lines = {}
    for n in [*args.devices, None]:
        of = [row for row in rows if n in (row["devices"], None)]
        if not of:
            continue
        signed = [row["step_time_us"]["predicted"] / row["measured_us"] - 1 for row in of]
        lines["all" if n is None else n] = {
            "times": len(of), "median_error": statistics.median(map(abs, signed)), "p90_error": quantile(map(abs, signed), 0.9),
            "worst_error": max(map(abs, signed)), "median_signed": statistics.median(signed),
            "inside": statistics.mean(r["step_time_us"]["low"] <= r["measured_us"] <= r["step_time_us"]["high"] for r in of),
            "width": statistics.median(r["step_time_us"]["high"] / r["step_time_us"]["low"] for r in of)}
    memory = [abs(row["bytes_per_device"] / row["measured_bytes"] - 1) for row in rows
              if row["bytes_per_device"] and row["measured_bytes"]]
    apart = [max(row["measured_runs_us"]) / min(row["measured_runs_us"]) - 1 for row in rows if args.repeat > 1]
    return {"lines": lines, "cells": len(cells), "memory_errors": memory, "runs_apart": apart,
            "regret": regret(cells, lambda r: r["step_mean_us"]["high"], lambda r: r["measured_mean_us"]),
            "regret_of_medians": regret(cells, lambda r: r["step_mean_us"]["high"], lambda r: r["measured_us"]),
            "busy": statistics.mean(cell["busy"] for cell in cells)}


def show(cell):
    text = f"{cell['network']:>10} {cell['batch']:>5} {cell['what']}"
    if cell["peer"] != "none":
        text += f" {cell['precision']} {cell['peer']:>3}"
    for n, row in cell["rows"].items():
        said, true = row["step_time_us"]["predicted"], row["measured_us"]
        text += f"   {n}: {said:>10.1f} predicted {true:>10.1f} measured {100 * (said / true - 1):>+6.1f} %"
        if row["bytes_per_device"] and row["measured_bytes"]:
            text += f" (memory {1e-6 * row['measured_bytes']:.0f} MB {100 * (row['bytes_per_device'] / row['measured_bytes'] - 1):+.1f} %)"
    print(text, flush=True)


def measure_cell(args, cell, known):
    taken = {n: [] for n in cell["rows"]}
    for _ in range(args.repeat):
        for n, row in cell["rows"].items():
            same = (row["command"], cell["peer"] if row["devices"] > 1 else None)
            if same not in known or len(known[same]) < args.repeat:
                known.setdefault(same, []).append(measure(args, row, cell["peer"]))
            taken[n] = known[same]
    for n, row in cell["rows"].items():
        row["measured_us"] = statistics.median(t[0]["median"] for t in taken[n])
        row["measured_mean_us"] = statistics.mean(t[0]["mean"] for t in taken[n])
        row["measured_parts_us"], row["measured_bytes"] = taken[n][-1][1:]
        row["measured_runs_us"] = [t[0]["median"] for t in taken[n]]


def grid(args):
    for cell in cells(args):
        for precision in args.precisions.split(","):
            for peer in args.peer.split(","):
                yield (*cell, precision, peer)


def print_summary(summary):
    print(f"\n{summary['cells']} cells; while plans were timed, others took {100 * summary['busy']:.0f} % of the processors\n"
          f"{'devices':>8} {'times':>6} {'error: median':>14} {'90 %':>7} {'worst':>8} {'signed':>8} {'intervals hold':>15} {'high/low':>9}")
    for name, l in summary["lines"].items():
        print(f"{name:>8} {l['times']:>6} {100 * l['median_error']:>12.1f} % {100 * l['p90_error']:>5.1f} % {100 * l['worst_error']:>6.1f} % "
              f"{100 * l['median_signed']:>+6.1f} % {100 * l['inside']:>13.0f} % {l['width']:>9.2f}")
    for key, what in ("regret", "a run's time"), ("regret_of_medians", "the median step"):
        values = summary[key]
        print(f"regret of the choice in {what}: mean {100 * statistics.mean(values):.1f} %, worst {100 * max(values):.0f} %")
    apart, memory = summary["runs_apart"], summary["memory_errors"]
    if apart:
        print(f"two runs of one command lie apart by {100 * statistics.median(apart):.1f} % in the median, 90th percentile "
              f"{100 * quantile(apart, 0.9):.1f} %")
    if memory:
        print(f"memory: {sum(e <= 0.02 for e in memory)} of {len(memory)} within 2 %, worst {100 * max(memory):.1f} %")


def finished(args):
    """Cells that an earlier call has measured, by their name, batch, precision and peer access."""
    path = os.path.join(args.out, "cells.jsonl")
    if not os.path.exists(path):
        return {}
    with open(path) as f:
        return {tuple(c[k] for k in ("network", "batch", "precision", "peer")): c for c in map(json.loads, f)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lockstep", default="build/release/bin/lockstep")
    parser.add_argument("--out", default="accuracy", help="directory of configurations, predictions.jsonl, cells.jsonl; cells that "
                        "are there are not measured again")
    parser.add_argument("--backend", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--devices", default="1,2", help="numbers of devices to compare")
    parser.add_argument("--ranks", type=int, help="the same as --devices 1,RANKS")
    parser.add_argument("--precisions", default="fp32")
    parser.add_argument("--peer", default="none", help="on, off or on,off: NCCL's peer access")
    parser.add_argument("--plan-options", help="further options of lockstep plan (default: --ranks 2 --no-crossover)")
    parser.add_argument("--quick", action="store_true", help="8 cells")
    parser.add_argument("--families", action="store_true", help="presets of other families, two batches each")
    parser.add_argument("--only", help="cells, as medium:8,extreme/8:512")
    parser.add_argument("--cells", type=int, default=0, help="this many networks and batches, drawn from --seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, help="of each measurement, about (default 1.2, on GPUs 0.3)")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each command, in turn")
    parser.add_argument("--limit", type=float, default=0, help="seconds after which the cells measured so far are summed up, 0 = none")
    args = parser.parse_args()
    args.seconds = args.seconds or (0.3 if args.backend == "cuda" else 1.2)
    args.devices = [1, args.ranks] if args.ranks else [int(n) for n in args.devices.split(",")]
    args.plan_options = args.plan_options or f"--ranks {max(args.devices)} --no-crossover"
    os.makedirs(args.out, exist_ok=True)
    args.lockstep = os.path.abspath(args.lockstep)
    known, done = {}, finished(args)
    results = []
    args.until = time.monotonic() + (args.limit or math.inf)
    for name, batch, section, precision, peer in grid(args):
        cell = done.get((name, batch, precision, peer))
        try:
            if not cell:
                cell = predict(args, name, batch, section, precision, peer)
                if not cell:
                    continue
                with open(os.path.join(args.out, "predictions.jsonl"), "a") as f:
                    f.write(json.dumps({"written": time.strftime("%Y-%m-%dT%H:%M:%S"), **cell}) + "\n")
                measure_cell(args, cell, known)
                with open(os.path.join(args.out, "cells.jsonl"), "a") as f:
                    f.write(json.dumps(cell) + "\n")
        except subprocess.TimeoutExpired:
            print("stopped at the time limit: the rest of the grid was not measured", flush=True)
            break
        results.append(cell)
        show(cell)
    if not results:
        sys.exit("no cell was measured")
    print_summary(summarise(args, results))


if __name__ == "__main__":
    main()
