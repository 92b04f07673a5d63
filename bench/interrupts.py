#!/usr/bin/env python3
"""interrupts.py PROGRAM [COUNT [SEED]]: SIGINT at drawn moments of a training with large products, from its first
moment on. Of COUNT runs (100), every third with two ranks, each has to end.

A run that has not ended within LIMIT_S is named with what each thread of it blocks and has pending, and is killed.
Exit code 1: there was one, or one that ended by something else than the signal.
"""
import argparse
import collections
import glob
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

from arguments import above_zero, program

LIMIT_S = 60  # parallel.deadline_s after the signal, lockstep itself ends ranks that do not
CONFIG = """
model: {{preset: mlp-medium}}
data: {{kind: synthetic, samples: 2000}}
train: {{batch: 256, steps: 1000000, evaluate_every: 0, checkpoint: {{dir: {0}/run, keep: 1}}}}
parallel: {{backend: cpu, threads: 1, deadline_s: 20}}
"""


def threads_of(pid):
    for path in glob.glob(f"/proc/{pid}/task/*/status"):
        with open(path) as file:
            fields = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        yield " ".join(f"{name} {fields.get(name, '?')}" for name in ("Name", "State", "SigBlk", "SigPnd", "ShdPnd"))


def heed():
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell has what runs in its background ignore it


def interrupt(command, moment_s):
    """How the run ended: its exit code, or "late"; and how long after the signal."""
    with open("err", "w") as err:
        run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=err, preexec_fn=heed)
    time.sleep(moment_s)
    os.kill(run.pid, signal.SIGINT)
    begin = time.monotonic()
    try:
        return run.wait(LIMIT_S), time.monotonic() - begin
    except subprocess.TimeoutExpired:
        print(f"SIGINT after {moment_s:.3f} s had no effect for {LIMIT_S} s: {' '.join(command)}", *threads_of(run.pid), sep="\n  ")
        run.kill()
        return run.wait() and "late", LIMIT_S


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", metavar="PROGRAM", type=program)
    parser.add_argument("count", metavar="COUNT", nargs="?", type=above_zero, default=100)
    parser.add_argument("seed", metavar="SEED", nargs="?", type=int, default=int(time.time()))
    options = parser.parse_args()
    draw, ends, longest_s = random.Random(options.seed), collections.Counter(), 0
    print(f"{options.count} runs, seed {options.seed}")
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        with open("c.yaml", "w") as file:
            file.write(CONFIG.format(work))
        for n in range(options.count):
            ranks = ["--set", "parallel.strategy=ddp", "--ranks", "2"] if n % 3 == 2 else []
            end, took_s = interrupt([options.program, "train", "c.yaml", *ranks], draw.uniform(0, 1.5))
            ends[end] += 1
            longest_s = max(longest_s, took_s)
        os.chdir("/")
    # 130: it said so; -SIGINT: the signal came before main had installed its handlers
    print(f"ended: {dict(ends)} (exit code: runs); the longest took {longest_s:.2f} s")
    return bool(set(ends) - {130, -signal.SIGINT})


if __name__ == "__main__":
    sys.exit(main())
