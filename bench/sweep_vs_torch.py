#!/usr/bin/env python3
"""Networks that nobody chose, in lockstep and in PyTorch's best form, in one run: the ratio of their step times.

Draws networks of every family from a seed: widths that are multiples of 32 and widths that are not, batches, heads,
kernels, strides, groups, lengths, precisions, dropout, directions and depths. Each is trained by lockstep and by PyTorch
(bench/families_vs_torch.py says how a step is timed): captured, and with --compiled compiled and captured, images channels
last and channels first; the fastest counts. A cell is named by its number, so --only repeats one.
Needs torch and a GPU.
  bench/sweep_vs_torch.py --program build/cuda/bin/lockstep --seed 1 --cells 200 [--families recurrent,dense]
  bench/sweep_vs_torch.py --program build/cuda/bin/lockstep --recurrent 300,512,1024   the grid of widths of recurrent layers
  bench/sweep_vs_torch.py --program NEW --before OLD ...   OLD in the same cells: its ratio stands before the shape
A ratio above 1: lockstep is faster.
"""
import argparse
import json
import math
import random
import statistics
import subprocess
import tempfile
import time

import torch
from torch import nn

import families_vs_torch as families

PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
CLASSES = 10


def width(draw, low, high):
    """As often a multiple of 32 as not; its logarithm is uniform."""
    size = round(math.exp(draw.uniform(math.log(low), math.log(high))))
    return max(32, size // 32 * 32) if draw.random() < 0.5 else size


def power(draw, low, high):
    return round(math.exp(draw.uniform(math.log(low), math.log(high))))


class Last(nn.Module):
    """The last state of a recurrent network: of its reversed direction, that of the first position."""

    def __init__(self, kind, features, units, depth, both, dropout):
        super().__init__()
        self.chain = kind(features, units, depth, batch_first=True, bidirectional=both, dropout=dropout)
        self.both, self.units, self.head = both, units, nn.Linear(units * (1 + both), CLASSES)

    def forward(self, x):
        y = self.chain(x)[0]
        last = torch.cat([y[:, -1, :self.units], y[:, 0, self.units:]], 1) if self.both else y[:, -1]
        return self.head(last)


def recurrent(kind, units, depth, length, features, both, dropout):
    options = f"units: {units}, layers: {depth}, bidirectional: {str(both).lower()}, dropout: {dropout}, output: last"
    return (f"{{input: [{length}, {features}], loss: cross-entropy, layers: [{kind}: {{{options}}}, dense: {{units: {CLASSES}}}]}}",
            lambda batch: (Last(nn.LSTM if kind == "lstm" else nn.GRU, features, units, depth, both, dropout),
                           torch.randn(batch, length, features, device="cuda")))


def draw_recurrent(draw):
    depth = draw.choice((1, 1, 2, 3))
    shape = dict(kind=draw.choice(("lstm", "gru")), units=width(draw, 8, 2048), depth=depth, length=power(draw, 8, 128),
                 features=width(draw, 8, 256), both=draw.random() < 0.3, dropout=draw.choice((0, 0.2)) if depth > 1 else 0)
    return shape, recurrent(**shape), power(draw, 1, 512)


def draw_dense(draw):
    widths = [width(draw, 8, 4096) for _ in range(draw.randint(1, 12))]
    features, dropout = width(draw, 8, 4096), draw.choice((0, 0.1))
    layers = "".join(f"dense: {{units: {w}, activation: relu, dropout: {dropout}}}, " for w in widths)

    def make(batch):
        inner = []
        for before, after in zip([features] + widths, widths):
            inner += [nn.Linear(before, after), nn.ReLU()] + [nn.Dropout(dropout)] * (dropout > 0)
        return nn.Sequential(*inner, nn.Linear(widths[-1], CLASSES)), torch.randn(batch, features, device="cuda")
    text = f"{{input: [{features}], loss: cross-entropy, layers: [{layers}dense: {{units: {CLASSES}}}]}}"
    return dict(features=features, widths=widths, dropout=dropout), (text, make), power(draw, 1, 4096)


def draw_convolution(draw):
    side, channels, norm = draw.choice((8, 14, 28, 32, 56)), draw.choice((1, 3, width(draw, 8, 128))), draw.random() < 0.5
    rows, size = [], side
    for _ in range(draw.randint(1, 6)):
        before = rows[-1][0] if rows else channels
        kernel, groups = draw.choice((1, 3, 3, 5, 7)), draw.choice((1, 1, 1, 2, 4))
        filters = width(draw, 8, 512 if side < 32 else 128)
        groups = groups if before % groups == 0 and filters % groups == 0 else 1
        stride = draw.choice((1, 1, 2)) if size > 7 else 1
        size = (size - 1) // stride + 1
        rows.append((filters, kernel, stride, groups))
    batch = min(power(draw, 1, 512), (1 << 26) // (side * side * max(r[0] for r in rows)) or 1)
    after = ", batch_norm: {}" if norm else ""
    layers = "".join(f"conv2d: {{filters: {f}, kernel: {k}, stride: {s}, padding: {k // 2}, groups: {g}, bias: {str(not norm).lower()}}}"
                     f"{after}, activation: {{kind: relu}}, " for f, k, s, g in rows)

    def make(batch):
        inner, before = [], channels
        for f, k, s, g in rows:
            inner += [nn.Conv2d(before, f, k, s, k // 2, groups=g, bias=not norm)] + [nn.BatchNorm2d(f)] * norm + [nn.ReLU()]
            before = f
        return (nn.Sequential(*inner, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, CLASSES)),
                torch.randn(batch, channels, side, side, device="cuda"))
    text = (f"{{input: [{side}, {side}, {channels}], loss: cross-entropy, "
            f"layers: [{layers}global_pool: {{}}, dense: {{units: {CLASSES}}}]}}")
    return dict(side=side, channels=channels, rows=rows, norm=norm), (text, make), batch


def draw_attention(draw):
    heads, each = draw.choice((1, 2, 3, 4, 6, 8, 12)), draw.choice((8, 16, 24, 32, 48, 64, 80, 96, 128, 160, 256))
    size, depth, length = heads * each, draw.randint(1, 6), power(draw, 8, 2048)
    causal, dropout = draw.random() < 0.5, draw.choice((0, 0.1))
    batch = max(1, min(power(draw, 1, 256), (1 << 25) // (length * size)))
    preset, words = ("gpt-char", 256) if causal else ("encoder", 0)
    options = f"width: {size}, heads: {heads}, depth: {depth}, context: {length}, dropout: {dropout}"
    extra = f"vocabulary: {words}" if causal else f"features: 50, classes: {CLASSES}, loss: cross-entropy"

    def make(batch):
        model = families.Transformer(depth, size, heads, length, dropout, vocabulary=words, features=0 if causal else 50,
                                     classes=0 if causal else CLASSES, causal=causal, activation="tanh" if causal else "none")
        x = torch.randint(0, words, (batch, length), device="cuda") if causal else torch.randn(batch, length, 50, device="cuda")
        return model, x
    return (dict(preset=preset, width=size, heads=heads, depth=depth, length=length, dropout=dropout),
            (f"{{preset: {preset}, {options}, {extra}}}", make), batch)


FAMILIES = {"recurrent": draw_recurrent, "dense": draw_dense, "convolution": draw_convolution, "attention": draw_attention}


def lockstep_us(program, model, batch, precision, steps, limit_s):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(f"model: {model}\ndata: {{kind: synthetic, samples: {2 * batch}}}\n"
                   f"train: {{batch: {batch}, steps: {steps}, precision: {precision}, optimizer: {{name: adamw, lr: 1e-5}}}}\n"
                   "parallel: {backend: cuda, ranks: 1, side_lane: on}\n")
        file.flush()
        out = subprocess.run([program, "train", file.name, "--json", "--quiet"], capture_output=True, text=True, timeout=limit_s)
    if out.returncode:
        raise RuntimeError(" ".join(out.stderr.strip().splitlines()[-1:]))
    return json.loads(out.stdout)["step_time_us"]["median"]


def torch_us(make, batch, precision, compiled, last, seconds):
    """The step of a captured graph, as families_vs_torch times it."""
    def network(*_):
        model, x = make(batch)
        positions = x.shape[1:2] if x.dtype == torch.int64 else ()
        target = torch.randint(0, CLASSES, (batch, *positions), device="cuda")
        layout = torch.channels_last if last else torch.contiguous_format
        return (model.to(memory_format=layout), x.to(memory_format=layout), target) if x.dim() == 4 else (model, x, target)
    before, families.network = families.network, network
    try:
        return families.torch_us("", batch, precision, compiled, seconds)
    finally:
        families.network = before
        torch.cuda.empty_cache()


def compare(args, name, shape, text, make, batch, precision):
    begin, theirs, errors = time.perf_counter(), {}, []
    images = "side" in shape
    for compiled in (False, True) if args.compiled else (False,):
        for last in (True, False) if images else (True,):
            try:
                theirs[compiled, last] = torch_us(make, batch, precision, compiled, last, args.seconds)
            except Exception as failure:  # the other forms still count
                errors.append(str(failure).splitlines()[0][:80])
    best = min(theirs.values()) if theirs else math.nan
    steps, ours = max(8, min(200, int(args.seconds * 1e6 / best))) if theirs else 20, []
    for program in filter(None, (args.program, args.before)):
        try:
            ours.append(lockstep_us(program, text, batch, precision, steps, args.limit))
        except (RuntimeError, subprocess.TimeoutExpired) as failure:
            ours.append(math.nan)
            errors.append(str(failure)[:160])
    ratios = [best / us for us in ours]
    before = f"{ratios[1]:6.2f}" if args.before else ""
    print(f"{name:>12} {batch:5} {precision:5} {ours[0]:10.1f} {best:10.1f} {ratios[0]:6.2f}{before}  {json.dumps(shape)}"
          f"  ({time.perf_counter() - begin:.0f} s) {'; '.join(errors)}", flush=True)
    return ratios


def summary(name, pairs):
    for which, ratios in zip((name, f"{name}, before"), zip(*pairs)):
        describe(which, ratios)


def describe(name, ratios):
    known = sorted(r for r in ratios if not math.isnan(r))
    if known:
        mean = math.exp(statistics.fmean(math.log(r) for r in known))
        print(f"{name}: {len(known)} of {len(ratios)} cells, geometric mean {mean:.2f}, 5th percentile "
              f"{known[int(0.05 * len(known))]:.2f}, worst {known[0]:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--before", help="another program, in the same cells")
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds after which no further cell begins")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cells", type=int, default=40)
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--only", help="the cells of these numbers alone: 3,17")
    parser.add_argument("--recurrent", help="instead: two layers of these widths, fp32 at 32 and bf16 at 64")
    parser.add_argument("--compiled", action="store_true", help="PyTorch compiled, too (most of the time goes there)")
    parser.add_argument("--seconds", type=float, default=0.3, help="for each form")
    parser.add_argument("--limit", type=float, default=40, help="seconds that a run of lockstep may take")
    args = parser.parse_args()
    print(f"{'cell':>12} {'batch':>5} {'prec':5} {'lockstep us':>10} {'PyTorch us':>10} {'ratio':>6}  shape", flush=True)
    if args.recurrent:
        ratios = []
        for units in map(int, args.recurrent.split(",")):
            for kind in ("lstm", "gru"):
                for batch, precision in ((32, "fp32"), (64, "bf16")):
                    text, make = recurrent(kind, units, 2, 60, 50, False, 0)
                    ratios.append(compare(args, f"{kind} {units}", {}, text, make, batch, precision))
        summary("recurrent", ratios)
        return
    names, found, until = args.families.split(","), {}, time.perf_counter() + args.budget
    only = args.only and set(map(int, args.only.split(",")))
    for cell in range(args.cells):
        if time.perf_counter() > until:
            break
        draw = random.Random(f"{args.seed} {cell}")
        family = names[cell % len(names)]
        shape, (text, make), batch = FAMILIES[family](draw)
        precision = draw.choice(PRECISIONS)
        if not only or cell in only:
            found.setdefault(family, []).append(compare(args, f"{cell} {family[:8]}", shape, text, make, batch, precision))
    for family, ratios in found.items():
        summary(family, ratios)
    summary("all", [r for ratios in found.values() for r in ratios])


if __name__ == "__main__":
    main()
