#!/usr/bin/env python3
"""How far from the truth is `lockstep plan`? For every cell of a grid of networks and batches the prediction is written
to a file first; then the cell is measured through the command that its own row of the plan gives.

On a CPU: one rank of all cores against two ranks of half of them each (on two cores: 1 x 2 threads against 2 x 1
thread). On GPUs (--backend cuda): one GPU against two and four, as many as there are, for each of --precisions, with
peer access and without (--peer; NCCL_P2P_DISABLE=1). Needs a profile of this machine (lockstep probe; for --peer off
made with that setting too) and an idle machine: a busy one makes the measured side wrong. Where neighbours on the same
hardware cannot be kept away, the fastest of several measurements says best what the machine itself does; the summary is
printed against it, too, and how far measurements of one command lie apart.

  bench/plan_accuracy.py --lockstep build/release/bin/lockstep --out accuracy       the grid of 32 cells
  bench/plan_accuracy.py --quick                                                    8 cells
  bench/plan_accuracy.py --backend cuda --precisions fp32,tf32 --peer on,off        the grid of GPUs
"""
import argparse
import json
import os
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
BATCHES = {
    "cpu": {"medium": [8, 32, 128, 512, 2048, 4096], "medium/2": [8, 64, 256, 1024, 4096],
            "large/4": [8, 32, 128, 512, 2048, 4096], "large": [8, 32, 128, 512],
            "extreme/8": [8, 32, 128, 512, 2048, 4096], "extreme/4": [8, 64, 512], "extreme": [8, 32]},
    "cuda": {"medium": [16, 128, 1024, 4096, 16384], "large": [8, 64, 512, 2048, 16384], "large/4": [128, 4096],
             "extreme/4": [64, 2048], "extreme": [64, 1024]},
}
QUICK = [("medium", 8), ("medium", 128), ("medium", 2048), ("large/4", 32), ("large/4", 1024), ("extreme/8", 8),
         ("extreme/8", 512), ("large", 32)]


def cells(args):
    if args.only:
        return [(name, int(batch)) for name, batch in (cell.rsplit(":", 1) for cell in args.only.split(","))]
    if args.quick:
        return QUICK
    return [(name, batch) for name, batches in BATCHES[args.backend].items() for batch in batches]


def config(args, name, batch, precision):
    widths, dropout = NETWORKS[name]
    layers = []
    for i, width in enumerate(widths[1:]):
        dense = {"units": width}
        if i < len(widths) - 2:
            dense["activation"] = "relu"
            dense["dropout"] = dropout
        layers.append({"dense": dense})
    return {
        "model": {"input": [widths[0]], "loss": "mse", "layers": layers},
        "data": {"kind": "synthetic", "samples": max(4096, batch)},
        "train": {"batch": batch, "steps": 100, "precision": precision, "optimizer": {"name": "adam", "lr": 1e-5}},
        "parallel": {"backend": args.backend},
    }


def environment(peer):
    env = dict(os.environ)
    env.pop("NCCL_P2P_DISABLE", None)
    if peer == "off":
        env["NCCL_P2P_DISABLE"] = "1"
    return env


def run_json(command, peer, timeout=600):
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment(peer))
    if done.returncode != 0:
        sys.exit(f"failed ({done.returncode}): {shlex.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)


def predict(args, name, batch, precision, peer):
    path = os.path.join(args.out, f"{name.replace('/', '-')}-{batch}-{precision}.json")
    with open(path, "w") as f:
        json.dump(config(args, name, batch, precision), f, indent=1)
    start = time.monotonic()
    plan = run_json([args.lockstep, "plan", path, "--json", *shlex.split(args.plan_options)], peer)
    took = time.monotonic() - start
    rows = {}
    for row in plan["candidates"]:
        if row["priced"] and row["fits"] and row["devices"] not in rows and row["devices"] in args.devices:
            rows[row["devices"]] = row
    if set(rows) != set(args.devices):
        sys.exit(f"{name} {batch}: {args.devices} devices could not be priced: {plan['reasons']}")
    return {"network": name, "batch": batch, "precision": precision, "peer": peer, "plan_s": took,
            "crossover": plan["crossover_batch"],
            "rows": {str(n): {k: rows[n][k] for k in ("devices", "threads_per_rank", "options", "step_time_us",
                                                      "step_parts_us", "command")} for n in rows}}


def measure(args, row, peer):
    predicted = row["step_time_us"]["predicted"]
    steps = max(12 if predicted > 3e5 else 40, min(4000, int(args.seconds * 1e6 / predicted)))
    command = shlex.split(row["command"]) + ["--set", f"train.steps={steps}", "--json", "--quiet"]
    report = run_json(command, peer)
    return report["step_time_us"]["median"], report["step_parts_us"]


def quantile(values, q):
    values = sorted(values)
    place = q * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (place - low) * (values[high] - values[low])


def summarise(args, results, true_of):
    errors, regrets, wrong, far, inside = [], [], [], 0, 0
    for cell in results:
        true = {n: true_of(row["measured_runs_us"]) for n, row in cell["rows"].items()}
        said = {n: row["step_time_us"]["predicted"] for n, row in cell["rows"].items()}
        for n, row in cell["rows"].items():
            if n == "1" and cell["peer"] == "off" and "on" in args.peer.split(","):
                continue  # the same time as with peer access: counted once
            errors.append(abs(said[n] / true[n] - 1))
            inside += row["step_time_us"]["low"] <= true[n] <= row["step_time_us"]["high"]
        choice, best = min(said, key=said.get), min(true, key=true.get)
        gap = sorted(true.values())[1] / min(true.values()) - 1
        regrets.append(true[choice] / true[best] - 1)
        far += gap > args.gap
        if gap > args.gap and choice != best:
            wrong.append(f"{cell['network']} {cell['batch']} {cell['precision']} {cell['peer']} (gap {100 * gap:.0f} %)")
    return {"cells": len(results), "times": len(errors), "median_error": statistics.median(errors),
            "p90_error": quantile(errors, 0.9), "worst_error": max(errors), "mean_regret": statistics.mean(regrets),
            "worst_regret": max(regrets), "gap": args.gap, "gaps_above": far, "wrong_there": wrong,
            "intervals_that_hold": inside / len(errors)}


def show(cell):
    text = f"{cell['network']:>10} {cell['batch']:>5}"
    if cell["peer"] != "none":
        text += f" {cell['precision']} {cell['peer']:>3}"
    for n, row in cell["rows"].items():
        said, true = row["step_time_us"]["predicted"], row["measured_us"]
        text += f"   {n}: {said:>10.1f} predicted {true:>10.1f} measured {100 * (said / true - 1):>+6.1f} %"
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
        row["measured_us"] = statistics.median(t[0] for t in taken[n])
        row["measured_parts_us"] = taken[n][-1][1]
        row["measured_runs_us"] = [t[0] for t in taken[n]]


def grid(args):
    for name, batch in cells(args):
        for precision in args.precisions.split(","):
            for peer in args.peer.split(","):
                yield name, batch, precision, peer


def print_summary(args, which, summary):
    print(f"\nagainst the {which} of {args.repeat}: " if args.repeat > 1 else "\n", end="")
    print(f"{summary['times']} times in {summary['cells']} cells: error median "
          f"{100 * summary['median_error']:.1f} %, 90th percentile {100 * summary['p90_error']:.1f} %, worst "
          f"{100 * summary['worst_error']:.1f} %\nregret mean {100 * summary['mean_regret']:.2f} %, worst "
          f"{100 * summary['worst_regret']:.1f} %; wrong in {len(summary['wrong_there'])} of "
          f"{summary['gaps_above']} cells with a gap above {100 * args.gap:.0f} %: "
          f"{', '.join(summary['wrong_there']) or '-'}"
          f"\n90 % intervals hold {100 * summary['intervals_that_hold']:.0f} % of the measured times")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lockstep", default="build/release/bin/lockstep")
    parser.add_argument("--out", default="accuracy", help="directory of configurations, predictions.jsonl, results.json")
    parser.add_argument("--backend", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--devices", default="1,2", help="numbers of devices to compare")
    parser.add_argument("--precisions", default="fp32")
    parser.add_argument("--peer", default="none", help="on, off or on,off: NCCL's peer access")
    parser.add_argument("--plan-options", default="--ranks 2", help="further options of lockstep plan")
    parser.add_argument("--quick", action="store_true", help="8 cells")
    parser.add_argument("--only", help="cells, as medium:8,extreme/8:512")
    parser.add_argument("--seconds", type=float, default=1.5, help="of each measurement, about")
    parser.add_argument("--repeat", type=int, default=3, help="measurements of each variant, in turn")
    parser.add_argument("--gap", type=float, default=0.10, help="true gaps above which the choice has to be right")
    parser.add_argument("--limit", type=float, default=0, help="seconds after which no further cell begins, 0 = none")
    args = parser.parse_args()
    args.devices = [int(n) for n in args.devices.split(",")]
    os.makedirs(args.out, exist_ok=True)
    args.lockstep = os.path.abspath(args.lockstep)
    results, known, begin = [], {}, time.monotonic()
    for name, batch, precision, peer in grid(args):
        if args.limit and time.monotonic() - begin > args.limit:
            print("stopped at the time limit: the rest of the grid was not measured", flush=True)
            break
        cell = predict(args, name, batch, precision, peer)
        with open(os.path.join(args.out, "predictions.jsonl"), "a") as f:
            f.write(json.dumps({"written": time.strftime("%Y-%m-%dT%H:%M:%S"), **cell}) + "\n")
        measure_cell(args, cell, known)
        results.append(cell)
        show(cell)
    summary = {"median": summarise(args, results, statistics.median)}
    if args.repeat > 1:
        summary["fastest"] = summarise(args, results, min)
    with open(os.path.join(args.out, "results.json"), "w") as f:
        json.dump({"summary": summary, "cells": results}, f, indent=1)
    for which, s in summary.items():
        print_summary(args, which, s)
    if args.repeat > 1:
        spread = [max(runs) / min(runs) - 1 for cell in results for runs in
                  (row["measured_runs_us"] for row in cell["rows"].values())]
        print(f"\nslowest against fastest measurement of the same command: median {100 * statistics.median(spread):.0f} %, "
              f"90th percentile {100 * quantile(spread, 0.9):.0f} %")


if __name__ == "__main__":
    main()
