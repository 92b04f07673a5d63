#!/usr/bin/python3
"""LSTM and GRU on windows of the S&P 500: validation loss here and of the same network in PyTorch, for some seeds.

    bench/torch_series.py --program build/release/bin/lockstep [--csv FILE] [--seeds 3] [--kinds lstm,gru]

Both see the windows of examples/08-lstm.yaml, whose last fifth is held out, in the same units, with the same optimizer,
schedule and number of steps. Each seed draws PyTorch's initial weights, with which both begin; the order of samples differs.
Ends with 1 if the means over the seeds differ by more than 5 %.
"""
import argparse
import csv
import gzip
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np
import torch
from torch import nn

WINDOW, UNITS, LAYERS, BATCH, EPOCHS, RATE, WARMUP, PART, LIMIT = 32, 32, 2, 64, 8, 2e-3, 20, 0.2, 0.05
COLUMNS = ["close", "volume"]


def windows(path):
    opened = gzip.open(path, "rt") if path.endswith(".gz") else open(path)
    with opened as f:
        rows = np.array([[float(row[c]) for c in COLUMNS] for row in csv.DictReader(f)])
    count = len(rows) - WINDOW
    held = round(count * PART)
    train = count - held
    seen = rows[:train + WINDOW]  # by training windows and their targets
    x = (rows - seen.mean(0)) / seen.std(0)
    y = x[:, 0]
    xs = torch.tensor(np.stack([x[i:i + WINDOW] for i in range(count)]), dtype=torch.float32)
    ys = torch.tensor(y[WINDOW:, None], dtype=torch.float32)
    return (xs[:train], ys[:train]), (xs[train:], ys[train:])


class Network(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.rnn = {"lstm": nn.LSTM, "gru": nn.GRU}[kind](len(COLUMNS), UNITS, LAYERS, batch_first=True, dropout=0.1)
        self.head = nn.Linear(UNITS, 1)

    def forward(self, x):
        return self.head(self.rnn(x)[0][:, -1])


def here(model, kind):
    """Its tensors with one bias for each gate; a GRU keeps that of the last gate's hidden part."""
    out = {"head.weight": model.head.weight, "head.bias": model.head.bias}
    for k in range(LAYERS):
        w = {n: getattr(model.rnn, f"{n}_l{k}") for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
        out[f"rnn.weight_ih_l{k}"], out[f"rnn.weight_hh_l{k}"] = w["weight_ih"], w["weight_hh"]
        both = w["bias_ih"] + w["bias_hh"]
        if kind == "gru":
            both = torch.cat([both[:2 * UNITS], w["bias_ih"][2 * UNITS:]])
            out[f"rnn.bias_hn_l{k}"] = w["bias_hh"][2 * UNITS:]
        out[f"rnn.bias_l{k}"] = both
    return out


def write_safetensors(path, tensors):
    header, blobs, at = {}, [], 0
    for name, t in tensors.items():
        a = t.detach().numpy().astype(np.float32)
        header[name] = {"dtype": "F32", "shape": list(a.shape), "data_offsets": [at, at + a.nbytes]}
        blobs.append(a.tobytes())
        at += a.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def train_torch(model, train, held, seed):
    torch.manual_seed(1000 + seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    x, y = train
    stream = torch.cat([torch.randperm(len(x)) for _ in range(EPOCHS)])
    steps = math.ceil(len(stream) / BATCH)
    for step in range(steps):
        warm = (step + 1) / WARMUP if step < WARMUP else 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / (steps - WARMUP - 1)))
        optimizer.param_groups[0]["lr"] = RATE * warm
        batch = stream[step * BATCH:(step + 1) * BATCH]
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x[batch]), y[batch]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        return nn.functional.mse_loss(model(held[0]), held[1]).item()


def train_here(args, kind, seed, folder):
    config = {"model": {"input": [WINDOW, len(COLUMNS)], "loss": "mse", "weights": "w.safetensors",
                        "layers": [{kind: {"name": "rnn", "units": UNITS, "layers": LAYERS, "dropout": 0.1, "output": "last"}},
                                   {"dense": {"name": "head", "units": 1}}]},
              "data": {"kind": "csv", "path": os.path.abspath(args.csv), "columns": COLUMNS, "target": COLUMNS[:1],
                       "window": WINDOW, "horizon": 1, "validation": PART, "normalize": True},
              "train": {"batch": BATCH, "epochs": EPOCHS, "seed": seed, "clip_norm": 1.0, "evaluate_every": 0,
                        "optimizer": {"name": "adam", "lr": RATE}, "schedule": {"name": "cosine", "warmup_steps": WARMUP}},
              "parallel": {"backend": args.backend}}
    path = os.path.join(folder, "c.yaml")
    with open(path, "w") as f:
        json.dump(config, f)
    done = subprocess.run([args.program, "train", path, "--json"], capture_output=True, text=True)
    words = f"begins with {2 + 3 * LAYERS + LAYERS * (kind == 'gru')} of"
    if done.returncode or words not in done.stderr:
        sys.exit(done.stderr)
    report = json.loads(done.stdout)
    return report["val_loss_first"], report["val_loss"]


def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="lockstep")
    parser.add_argument("--csv", default=os.path.join(root, "examples/data/sp500-2000.csv.gz"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--kinds", default="lstm,gru")
    parser.add_argument("--backend", default="cpu")
    args = parser.parse_args()
    train, held = windows(args.csv)
    good = True
    print(f"PyTorch {torch.__version__}; {len(train[0])} windows for training, {len(held[0])} held out")
    print("| network | seed | before: PyTorch / here | after: PyTorch | here |")
    print("|---|---|---|---|---|")
    for kind in args.kinds.split(","):
        theirs, ours = [], []
        for seed in range(args.seeds):
            torch.manual_seed(seed)
            model = Network(kind)
            with tempfile.TemporaryDirectory() as folder:
                write_safetensors(os.path.join(folder, "w.safetensors"), here(model, kind))
                first, own = train_here(args, kind, seed, folder)
            model.eval()
            with torch.no_grad():
                before = nn.functional.mse_loss(model(held[0]), held[1]).item()
            model.train()
            theirs.append(train_torch(model, train, held, seed))
            ours.append(own)
            print(f"| {kind} | {seed} | {before:.5f} / {first:.5f} | {theirs[-1]:.5f} | {own:.5f} |", flush=True)
        ratio = np.mean(ours) / np.mean(theirs)
        print(f"| {kind} | mean | | {np.mean(theirs):.5f} | {np.mean(ours):.5f} ({ratio - 1:+.1%}) |", flush=True)
        good = good and ratio <= 1 + LIMIT
    sys.exit(0 if good else 1)


main()
