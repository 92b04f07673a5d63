#!/usr/bin/env python3
"""early_kills.py LOCKSTEP [COUNT [SEED]]: SIGKILL to a rank 0 to 50 ms after its process has appeared, COUNT times (60).

Each trial is a supervised run of two or three ranks; in every fourth one the second life loses a rank in the same way. Every run
has to end with the bits of an undisturbed one. Exit code 1: one did not, or a kill came too late to strike.
"""
import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

from arguments import above_zero, program

LATEST_S = 0.05
CONFIG = """
model: {input: [30], loss: mse, layers: [{dense: {units: 64, activation: relu, dropout: 0.2}}, {dense: {units: 4}}]}
data: {kind: synthetic, samples: 2000}
train: {batch: 60, steps: 400, evaluate_every: 0, optimizer: {name: adam}, checkpoint: {every_steps: 100, beside: false}}
parallel: {strategy: ddp, backend: cpu, threads: 1, reproducible: true, deadline_s: 60}
supervise: {restarts: {backoff_s: 0.1}}
"""


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def ranks_of(run):
    """The supervisor's children, in their order."""
    return children(run.pid)


def strike(run, place, after_s, earlier):
    """Kills the rank at this place of a life that began after the earlier processes. The process; None: the run was over before."""
    while run.poll() is None:
        found = [pid for pid in ranks_of(run) if pid not in earlier]
        if len(found) > place:
            time.sleep(after_s)
            try:
                os.kill(found[place], signal.SIGKILL)
            except ProcessLookupError:  # one of the earlier life, which was ending
                earlier.update(found)
                continue
            earlier.update(ranks_of(run))
            return found[place]
        time.sleep(0.0002)
    return None


def train(lockstep, folder, name, ranks, *more):
    with open(f"{folder}/{name}.err", "w", encoding="utf-8") as err:
        return subprocess.Popen([lockstep, "train", f"{folder}/c.yaml", "--quiet", "--json", "--ranks", str(ranks), "--set",
                                 f"train.checkpoint.dir={folder}/{name}", *more], stdout=subprocess.PIPE, stderr=err, text=True)


def bits(run):
    out = run.communicate()[0]
    return json.loads(out)["params_xxh3"] if run.returncode == 0 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lockstep", metavar="LOCKSTEP", type=program)
    parser.add_argument("count", metavar="COUNT", nargs="?", type=above_zero, default=60)
    parser.add_argument("seed", metavar="SEED", nargs="?", type=int, default=int(time.time()))
    options = parser.parse_args()
    draw, right = random.Random(options.seed), 0
    print(f"{options.count} runs, seed {options.seed}")
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/c.yaml", "w", encoding="utf-8") as file:
            file.write(CONFIG)
        want = bits(train(options.lockstep, folder, "whole", 2))
        for n in range(options.count):
            ranks, kills, earlier = draw.choice([2, 4]), 2 if n % 4 == 3 else 1, set()
            run = train(options.lockstep, folder, f"run{n}", ranks, "--supervise")
            moments = [(draw.randrange(ranks), draw.uniform(0, LATEST_S)) for _ in range(kills)]
            struck = [strike(run, place, after_s, earlier) for place, after_s in moments]
            got = bits(run)
            right += got == want and None not in struck
            if got != want or None in struck:
                said = "; ".join(f"rank {place} after {1000 * after_s:.1f} ms" for place, after_s in moments)
                print(f"run {n}, {ranks} ranks, {said}, struck {struck}: exit code {run.returncode}, bits {got}, undisturbed {want}")
                with open(f"{folder}/run{n}.err", encoding="utf-8") as file:
                    print(file.read(), flush=True)
    print(f"{right} of {options.count} ended with the undisturbed bits")
    return right != options.count


if __name__ == "__main__":
    sys.exit(main())
