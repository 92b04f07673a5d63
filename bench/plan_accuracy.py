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
  bench/plan_accuracy.py --families --backend cuda --precisions bf16 --limit 200    recurrent networks, transformers and
      convolutions, two batches each
  bench/plan_accuracy.py --random 40 --seed 1                                       networks that nobody chose: depth
      1 to 6, widths 2 to 2048, any activation, dropout, both losses, batches 1 to 4096, all drawn from the seed; on a
      CPU 1 x 1, 1 x 2 and 2 x 1 threads
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
    if args.random:
        return [drawn(random.Random(f"{args.seed}-{i}"), i) for i in range(args.random)]
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


def drawn(draw, number):
    """Widths and batch are as likely between 2 and 4 as between 1024 and 2048."""
    def size(low, high):
        return round(2 ** draw.uniform(math.log2(low), math.log2(high)))
    dropout = draw.choice([0, 0, 0.1, 0.3])
    activation = draw.choice(ACTIVATIONS)
    hidden = [{"dense": {"units": size(2, 2048), "activation": activation, "dropout": dropout}}
              for _ in range(draw.randint(0, 5))]
    loss = draw.choice(["mse", "cross-entropy"])
    return f"drawn-{number}", size(1, 4096), {
        "input": [size(2, 2048)], "loss": loss, "layers": hidden + [{"dense": {"units": size(2, 2048)}}]}


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
            "plan_s": took, "crossover": plan["crossover_batch"],
            "rows": {key: {k: row[k] for k in ("devices", "threads_per_rank", "options", "step_time_us", "step_parts_us",
                                               "bytes_per_device", "command")} for key, row in rows.items()}}


def measure(args, row, peer):
    predicted = row["step_time_us"]["predicted"]
    steps = max(5 if predicted > 1e6 else 12 if predicted > (2e4 if args.backend == "cuda" else 3e5) else 40, min(4000, int(args.seconds * 1e6 / predicted)))
    command = shlex.split(row["command"]) + ["--set", f"train.steps={steps}", "--json", "--quiet"]
    report = run_json(args, command, peer)
    return report["step_time_us"]["median"], report["step_parts_us"], report["bytes_per_device"]["measured"]


def quantile(values, q):
    values = sorted(values)
    place = q * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (place - low) * (values[high] - values[low])


def summarise(args, results, true_of):
    signed, regrets, wrong, far, inside = [], [], [], 0, 0
    for cell in results:
        true = {n: true_of(row["measured_runs_us"]) for n, row in cell["rows"].items()}
        said = {n: row["step_time_us"]["predicted"] for n, row in cell["rows"].items()}
        for n, row in cell["rows"].items():
            if row["devices"] == 1 and cell["peer"] == "off" and "on" in args.peer.split(","):
                continue  # the same time as with peer access: counted once
            signed.append(said[n] / true[n] - 1)
            inside += row["step_time_us"]["low"] <= true[n] <= row["step_time_us"]["high"]
        choice, best = min(said, key=said.get), min(true, key=true.get)
        gap = sorted(true.values())[1] / min(true.values()) - 1 if len(true) > 1 else 0
        regrets.append(true[choice] / true[best] - 1)
        far += gap > args.gap
        if gap > args.gap and choice != best:
            wrong.append(f"{cell['network']} {cell['batch']} {cell['precision']} {cell['peer']} (gap {100 * gap:.0f} %)")
    errors = [abs(e) for e in signed]
    memory = [abs(row["bytes_per_device"] / row["measured_bytes"] - 1) for cell in results for row in cell["rows"].values()
              if row["bytes_per_device"] and row["measured_bytes"]]
    return {"memory_errors": memory, "cells": len(results), "times": len(errors), "median_signed": statistics.median(signed), "median_error": statistics.median(errors),
            "p90_error": quantile(errors, 0.9), "worst_error": max(errors), "mean_regret": statistics.mean(regrets),
            "worst_regret": max(regrets), "beyond_2_times": sum(e > 1 or e < -0.5 for e in signed), "gap": args.gap, "gaps_above": far, "wrong_there": wrong,
            "intervals_that_hold": inside / len(errors)}


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
        row["measured_us"] = statistics.median(t[0] for t in taken[n])
        row["measured_parts_us"], row["measured_bytes"] = taken[n][-1][1:]
        row["measured_runs_us"] = [t[0] for t in taken[n]]


def grid(args):
    for cell in cells(args):
        for precision in args.precisions.split(","):
            for peer in args.peer.split(","):
                yield (*cell, precision, peer)


def print_summary(args, which, summary):
    print(f"\nagainst the {which} of {args.repeat}: " if args.repeat > 1 else "\n", end="")
    print(f"{summary['times']} times in {summary['cells']} cells: error median "
          f"{100 * summary['median_error']:.1f} %, 90th percentile {100 * summary['p90_error']:.1f} %, worst "
          f"{100 * summary['worst_error']:.1f} % ({summary['beyond_2_times']} beyond 2 times; median with its sign "
          f"{100 * summary['median_signed']:+.1f} %)\nregret mean {100 * summary['mean_regret']:.2f} %, worst "
          f"{100 * summary['worst_regret']:.1f} %; wrong in {len(summary['wrong_there'])} of "
          f"{summary['gaps_above']} cells with a gap above {100 * args.gap:.0f} %: "
          f"{', '.join(summary['wrong_there']) or '-'}"
          f"\nmemory: {sum(e <= 0.02 for e in summary['memory_errors'])} of {len(summary['memory_errors'])} within 2 %, worst "
          f"{100 * max(summary['memory_errors'], default=math.nan):.1f} %"
          f"\n90 % intervals hold {100 * summary['intervals_that_hold']:.0f} % of the measured times")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lockstep", default="build/release/bin/lockstep")
    parser.add_argument("--out", default="accuracy", help="directory of configurations, predictions.jsonl, results.json")
    parser.add_argument("--backend", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--devices", default="1,2", help="numbers of devices to compare")
    parser.add_argument("--precisions", default="fp32")
    parser.add_argument("--peer", default="none", help="on, off or on,off: NCCL's peer access")
    parser.add_argument("--plan-options", help="further options of lockstep plan (default: --ranks 2 --no-crossover)")
    parser.add_argument("--quick", action="store_true", help="8 cells")
    parser.add_argument("--families", action="store_true", help="presets of other families, two batches each")
    parser.add_argument("--only", help="cells, as medium:8,extreme/8:512")
    parser.add_argument("--random", type=int, default=0, help="this many networks and batches, drawn from --seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, help="of each measurement, about (default 1.5, on GPUs 0.3)")
    parser.add_argument("--repeat", type=int, help="measurements of each variant, in turn (default 3; on GPUs 1, whose times "
                        "vary by 1 %%)")
    parser.add_argument("--gap", type=float, default=0.10, help="true gaps above which the choice has to be right")
    parser.add_argument("--limit", type=float, default=0, help="seconds after which the cells measured so far are summed up, 0 = none")
    args = parser.parse_args()
    cuda = args.backend == "cuda"
    for name, host, gpu in ("plan_options", "--ranks 2 --no-crossover", "--ranks 2 --no-crossover"), ("seconds", 1.5, 0.3), ("repeat", 3, 1):
        if getattr(args, name) is None:
            setattr(args, name, gpu if cuda else host)
    args.devices = [int(n) for n in args.devices.split(",")]
    os.makedirs(args.out, exist_ok=True)
    args.lockstep = os.path.abspath(args.lockstep)
    results, known = [], {}
    args.until = time.monotonic() + (args.limit or math.inf)
    for name, batch, section, precision, peer in grid(args):
        try:
            cell = predict(args, name, batch, section, precision, peer)
            if not cell:
                continue
            with open(os.path.join(args.out, "predictions.jsonl"), "a") as f:
                f.write(json.dumps({"written": time.strftime("%Y-%m-%dT%H:%M:%S"), **cell}) + "\n")
            measure_cell(args, cell, known)
        except subprocess.TimeoutExpired:
            print("stopped at the time limit: the rest of the grid was not measured", flush=True)
            break
        results.append(cell)
        show(cell)
    if not results:
        sys.exit("no cell was measured")
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
