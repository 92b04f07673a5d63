#!/usr/bin/python3
"""lockstep against PyTorch on the CPU, in one run: step times of both, interleaved, and their ratio.

Needs python3-torch and libopenblas0 (Debian). Usage: bench/vs_torch.py [--program build/release/bin/lockstep]
[--repeat 3] [--cells medium:16,large:8]. The ratio is PyTorch's time over lockstep's: above 1, lockstep is faster.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CELLS = [("medium", 16), ("medium", 128), ("medium", 1024), ("large", 8), ("large", 64), ("large", 512)]
VARIANTS = [(1, 2), (2, 1)]  # ranks, threads per rank

CONFIG = """
model: {{preset: mlp-{model}}}
data: {{kind: synthetic, samples: {samples}}}
train: {{batch: {batch}, steps: {steps}, optimizer: {{name: adam, lr: 1e-3}}}}
parallel: {{strategy: {strategy}, ranks: {ranks}, threads: {threads}, backend: cpu}}
"""


def steps_for(model, batch):
    if model == "medium":
        return 2000 if batch <= 128 else 200
    return 100 if batch <= 64 else 40


def lockstep(args, model, batch, ranks, threads, folder):
    path = os.path.join(folder, "bench.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(CONFIG.format(model=model, batch=batch, steps=steps_for(model, batch), ranks=ranks, threads=threads,
                                 samples=max(1024, batch), strategy="ddp" if ranks > 1 else "single"))
    out = subprocess.run([args.program, "train", path, "--json", "--quiet"], check=True, stdout=subprocess.PIPE)
    return json.loads(out.stdout)["step_time_us"]["median"]


def torch(args, model, batch, ranks, threads):
    steps = max(30, steps_for(model, batch) // 4)
    out = subprocess.run([sys.executable, os.path.join(HERE, "torch_peer.py"), "--model", "mlp-" + model, "--batch",
                          str(batch), "--ranks", str(ranks), "--threads", str(threads), "--steps", str(steps)],
                         check=True, stdout=subprocess.PIPE)
    return json.loads(out.stdout)["step_time_us"]["median"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=os.path.join(HERE, "..", "build", "release", "bin", "lockstep"))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--cells", help="model:batch,... (default: all)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    cells = [(c.split(":")[0], int(c.split(":")[1])) for c in args.cells.split(",")] if args.cells else CELLS
    rows = []
    print(f"{'model':8} {'batch':>6} {'ranks x threads':>16} {'lockstep us':>12} {'PyTorch us':>12} {'ratio':>7}",
          file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        for model, batch in cells:
            for ranks, threads in VARIANTS:
                ours, theirs = [], []
                for _ in range(args.repeat):
                    ours.append(lockstep(args, model, batch, ranks, threads, folder))
                    theirs.append(torch(args, model, batch, ranks, threads))
                ratios = [b / a for a, b in zip(ours, theirs)]
                row = {"model": model, "batch": batch, "ranks": ranks, "threads_per_rank": threads,
                       "lockstep_us": statistics.median(ours), "torch_us": statistics.median(theirs),
                       "ratio": statistics.median(ratios), "ratio_min": min(ratios), "ratio_max": max(ratios)}
                rows.append(row)
                print(f"{model:8} {batch:6} {ranks:>12} x {threads} {row['lockstep_us']:12.1f} {row['torch_us']:12.1f}"
                      f" {row['ratio']:6.2f}x ({row['ratio_min']:.2f}-{row['ratio_max']:.2f})", file=sys.stderr)
    if args.json:
        print(json.dumps({"version": 1, "rows": rows}, indent=2))


if __name__ == "__main__":
    main()
