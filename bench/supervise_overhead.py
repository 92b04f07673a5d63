#!/usr/bin/env python3
"""supervise_overhead.py LOCKSTEP [ROUNDS]: what the ranks' page and --supervise cost a step, on 1 and 2 CPU ranks.

Runs a small training plainly, with monitor.dir (page and observers) and under --supervise, in turn and in changing order,
and prints the median and the quartiles of (median step / plain median step - 1) over the rounds.
"""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

CONFIG = """
model: {{input: [30], loss: mse, layers: [{{dense: {{units: 256, activation: relu}}}}, {{dense: {{units: 4}}}}]}}
data: {{kind: synthetic, samples: 2000}}
train: {{batch: 64, steps: 10000, evaluate_every: 0, checkpoint: {{dir: {dir}}}}}
parallel: {{backend: cpu, threads: 1, ranks: {ranks}}}
"""
ARMS = {"plain": [], "monitor.dir": ["--set", "monitor.dir={dir}/monitor"], "--supervise": ["--supervise"]}


def step_us(program, folder, arm, ranks):
    run = folder / arm.strip("-")
    config = folder / "c.yaml"
    config.write_text(CONFIG.format(dir=run, ranks=ranks))
    flags = [flag.format(dir=run) for flag in ARMS[arm]]
    done = subprocess.run([program, "train", config, "--quiet", "--json", *flags], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)["step_time_us"]["median"]


def main():
    program = sys.argv[1]
    rounds = max(2, int(sys.argv[2])) if len(sys.argv) > 2 else 15
    for ranks in (1, 2):
        plain, more = [], {arm: [] for arm in ARMS if arm != "plain"}
        for i in range(rounds):
            arms = list(ARMS)[i % 3:] + list(ARMS)[: i % 3]
            with tempfile.TemporaryDirectory() as folder:
                took = {arm: step_us(program, pathlib.Path(folder), arm, ranks) for arm in arms}
            plain.append(took["plain"])
            for arm, shares in more.items():
                shares.append(100 * (took[arm] / took["plain"] - 1))
        print(f"{ranks} rank(s), {statistics.median(plain):.1f} us a step")
        for arm, shares in more.items():
            low, mid, high = statistics.quantiles(shares, n=4)
            print(f"  {arm:12} {mid:+.2f} % ({low:+.2f} .. {high:+.2f})")


main()
