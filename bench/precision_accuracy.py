#!/usr/bin/env python3
"""Validation accuracy of the two networks of handwritten digits in each precision, on several seeds: what 16-bit
floats cost. The mean over the seeds must be within --points of fp32's.

  bench/precision_accuracy.py --lockstep build/dev/bin/lockstep [--data DIR with mnist/] [--set KEY=VALUE ..]"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EXAMPLES = ["02-mnist", "07-convolution"]


def accuracy(options, example, precision, seed, folder):
    sets = [f"train.precision={precision}", f"train.seed={seed}", f"train.checkpoint.dir={folder}"] + options.set
    if options.data:
        sets += [f"data.{key}={options.data}/mnist/{name}-ubyte.gz"
                 for key, name in (("features", "images-idx3"), ("targets", "labels-idx1"))]
    command = [options.lockstep, "train", f"{ROOT}/examples/{example}.yaml", "--quiet", "--json"]
    for each in sets:
        command += ["--set", each]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    report = json.loads(done.stdout)
    return 100 * report["val_accuracy"], report["skipped_steps"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lockstep", default="lockstep")
    parser.add_argument("--data", help="a folder with mnist/; without it the 2,000 digits of the examples")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--precisions", default="bf16,fp16")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--points", type=float, default=0.3)
    options = parser.parse_args()
    seeds = options.seeds.split(",")
    worst = 0.0
    for example in EXAMPLES:
        means = {}
        for precision in ["fp32"] + options.precisions.split(","):
            with tempfile.TemporaryDirectory() as folder:
                rows = [accuracy(options, example, precision, seed, f"{folder}/{seed}") for seed in seeds]
            means[precision] = sum(row[0] for row in rows) / len(rows)
            worst = max(worst, means["fp32"] - means[precision])
            print(f"{example:16} {precision:5}", " ".join(f"{row[0]:6.2f} %" for row in rows),
                  f"  mean {means[precision]:6.2f} % ({means[precision] - means['fp32']:+.2f}), "
                  f"{sum(row[1] for row in rows)} steps skipped", flush=True)
    if worst > options.points:
        sys.exit(f"{worst:.2f} points are lost, {options.points} may be")


if __name__ == "__main__":
    main()
