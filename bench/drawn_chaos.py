#!/usr/bin/env python3
"""drawn_chaos.py LOCKSTEP [COUNT [--first SEED]]: does chaos come out right for configurations that nobody chose?

Draws COUNT configurations (default 30) from their seeds: network, optimizer, schedule, precision, micro-batches, one to four ranks,
wire, checkpoints, monitoring. Runs six kinds of fault on each, drawn as well. Prints a line for each configuration, then how
soon dead and hanging ranks were noticed. Exit code 1 if any run did not come out right; its configuration is shown.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

from arguments import above_zero, program

KINDS = """kill segfault abort exit stop loop slow nan flip spoil memory nospace ioerror fsync short supervisor
preempt usr1 interrupt""".split()
SEVERAL = {"flip", "slow"}
HANGS = {"stop", "loop"}
DEATHS = {"kill", "segfault", "abort", "exit", "spoil", "memory"}
HANG_S = 3


def network(r):
    kind, act, drop = r.choice(["dense", "batch_norm", "conv", "lstm", "gru", "attention"]), r.choice(["relu", "gelu", "tanh"]), \
        r.choice([0, 0.1, 0.4])
    if kind == "dense":
        layers = [{"dense": {"units": r.randint(1, 60), "activation": act, "dropout": drop}} for _ in range(r.randint(0, 3))]
        return [r.randint(1, 40)], layers + [{"dense": {"units": r.randint(1, 7)}}], r.choice(["mse", "l1", "huber"])
    if kind == "batch_norm":
        norm = {"batch_norm": {"statistics": r.choice(["global", "local"])}}
        return [r.randint(3, 20)], [{"dense": {"units": r.randint(4, 30)}}, norm, {"activation": {"kind": act}},
                                    {"dense": {"units": r.randint(2, 6)}}], r.choice(["mse", "cross-entropy"])
    if kind == "conv":
        norm = [{"group_norm": {"groups": 4}}] if r.random() < 0.5 else []
        return [r.randint(6, 12)] * 2 + [r.choice([1, 3])], \
            [{"conv2d": {"filters": 8, "activation": act}}, {"pool": {}}] + norm + \
            [{"global_pool": {"kind": r.choice(["mean", "max"])}}, {"dense": {"units": r.randint(2, 5)}}], "cross-entropy"
    if kind == "attention":
        attention = {"attention": {"heads": r.choice([1, 2, 4]), "causal": r.random() < 0.5, "dropout": drop}}
        return [r.randint(4, 10), r.choice([8, 12])], \
            [{"positions": {"kind": "sinusoidal"}}, attention, {"layer_norm": {}}, {"global_pool": {}}, {"dense": {"units": 2}}], "mse"
    return [r.randint(3, 9), r.randint(1, 5)], \
        [{kind: {"units": r.randint(3, 17), "layers": r.randint(1, 2), "bidirectional": r.random() < 0.4, "dropout": drop,
                 "output": "last"}}, {"dense": {"units": r.randint(1, 3)}}], "mse"


def configuration(r):
    shape, layers, loss = network(r)
    ranks = r.choice([1, 2, 2, 2, 3, 3, 4])
    train = {"batch": r.choice([8, 13, 16, 24, 32, 57]), "steps": r.randint(60, 400), "seed": r.randrange(10 ** 9),
             "accumulate": r.choice([1, 1, 2, 3]), "evaluate_every": r.choice([0, 1, 2]), "clip_norm": r.choice([0, 0, 1]),
             "precision": r.choice(["fp32"] * 4 + ["bf16", "fp16"]),
             "optimizer": r.choice([{"name": "sgd", "lr": 0.01, "momentum": 0.9}, {"name": "adam", "lr": 0.001},
                                    {"name": "adamw", "lr": 0.002, "weight_decay": 0.1, "ema": 0.99}]),
             "schedule": r.choice([{"name": "constant"}, {"name": "cosine", "warmup_steps": 7}, {"name": "step", "every_steps": 31}]),
             "prune": r.choice([None, None, None, {"sparsity": 0.5, "begin": 10, "end": 50, "every": 7}]),
             "checkpoint": {"keep": r.choice([1, 2, 5]), "beside": r.random() < 0.6}}
    parallel = {"backend": r.choice(["cpu", "cpu", "ref"]), "threads": 1, "ranks": ranks, "bucket_bytes": r.choice([1, 100, 4194304]),
                "wire": r.choice(["f32", "f32", "f32", "bf16", "f16"])}
    if ranks in (2, 4) and r.random() < 0.2:
        parallel.update(wire="f32", reproducible=True)
        train.update(batch=32, accumulate=1)
    return {"model": {"input": shape, "layers": layers, "loss": loss},
            "data": {"kind": "synthetic", "samples": r.randint(80, 900), "validation": r.choice([0, 0.1, 0.3])},
            "train": train, "parallel": parallel,
            "monitor": {"every_s": r.choice([0.05, 0.5, 1]), "sinks": r.choice([[], ["csv", "prometheus", "tensorboard"]])},
            "supervise": {"hang_s": HANG_S, "restarts": {"healthy_steps": r.choice([20, 200])}}}


def times(name, values):
    values = sorted(v for v in values if v is not None)
    if values:
        print(f"{name}: {len(values)} times, median {values[len(values) // 2]:.3f} s, longest {values[-1]:.3f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lockstep", type=program)
    parser.add_argument("count", type=above_zero, nargs="?", default=30)
    parser.add_argument("--first", type=above_zero, default=1, help="the first seed (default: 1)")
    args = parser.parse_args()
    runs, right, dead, again, hung = 0, 0, [], [], []
    for seed in range(args.first, args.first + args.count):
        r = random.Random(seed)
        config = configuration(r)
        kinds = r.sample([k for k in KINDS if config["parallel"]["ranks"] > 1 or k not in SEVERAL], 6)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "drawn.yaml")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(config, file)
            done = subprocess.run([args.lockstep, "chaos", path, "--kinds", ",".join(kinds), "--seeds", "1", "--first-seed", str(seed),
                                   "--json"], capture_output=True, text=True, check=False)
        print(f"seed {seed}, {config['parallel']['ranks']} ranks: {', '.join(kinds)}: exit code {done.returncode}", flush=True)
        if done.returncode:
            print(done.stderr + json.dumps(config), flush=True)
        if not done.stdout:
            runs += len(kinds)
            continue
        for kind in json.loads(done.stdout)["kinds"]:
            for o in kind["outcomes"]:
                runs += 1
                right += o["struck"] and o["same_bits"] and o["cause_named"]
                if kind["kind"] in DEATHS:
                    dead.append(o["noticed_s"])
                    again.append(o["first_step_s"])
                if kind["kind"] in HANGS:
                    hung.append(o["noticed_s"])
    print(f"{right} of {runs} runs came out right")
    times("a death was noticed", dead)
    times("first new step", again)
    times(f"a hang was noticed (supervise.hang_s: {HANG_S})", hung)
    return right != runs


if __name__ == "__main__":
    sys.exit(main())
