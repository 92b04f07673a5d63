#!/usr/bin/env python3
"""lockstep against PyTorch on one GPU, network by network, in one run: step times of both, and their ratio.

PyTorch's step (forward, loss, backward, fused AdamW) is one CUDA graph, once as it is and once compiled by
torch.compile; the faster of the two counts. Its times are taken between two runs of lockstep. Needs torch and
torchvision.
  bench/families_vs_torch.py --program build/release/bin/lockstep [--cells lstm:32:fp32,gpt2:16:bf16] [--eager]
A ratio above 1: lockstep is faster.
"""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import torch.nn.functional as F
from torch import nn

# network, batch, precision, what the ratio is to reach
CELLS = [("lstm", 32, "fp32", 6), ("lstm", 256, "fp32", 2), ("lstm", 256, "bf16", 1.5),
         ("gru", 32, "fp32", 6), ("gru", 256, "fp32", 2), ("gru", 256, "bf16", 1.5),
         ("encoder", 32, "bf16", 1.3), ("encoder", 256, "bf16", 1.1), ("gpt-char", 64, "bf16", 1.1),
         ("gpt2", 16, "bf16", 1.05), ("resnet18", 32, "bf16", 1.1), ("resnet18", 256, "bf16", 1.0),
         ("resnet50", 256, "bf16", 1.0), ("efficientnet-b0", 128, "bf16", 1.1), ("bert-small", 32, "bf16", 1.1),
         ("bert-base", 32, "bf16", 1.1), ("bert-base", 128, "bf16", 1.0)]
PRECISION = {"fp32": None, "tf32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


class Recurrent(nn.Module):
    def __init__(self, kind, width):
        super().__init__()
        self.chain, self.head = kind(50, width, 2, batch_first=True), nn.Linear(width, 3)

    def forward(self, x):
        return self.head(self.chain(x)[0][:, -1])


class Block(nn.Module):
    """Pre-norm, or post-norm as BERT has it."""

    def __init__(self, width, heads, dropout, causal, post, activation):
        super().__init__()
        self.heads, self.dropout, self.causal, self.post = heads, dropout, causal, post
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.back = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.act = nn.GELU(approximate=activation)
        self.drop = nn.Dropout(dropout)

    def attention(self, x):
        n, t, d = x.shape
        q, k, v = (p.view(n, t, self.heads, -1).transpose(1, 2) for p in self.qkv(x).split(d, 2))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout if self.training else 0.0,
                                           is_causal=self.causal)
        return self.drop(self.proj(y.transpose(1, 2).reshape(n, t, d)))

    def mlp(self, x):
        return self.drop(self.back(self.act(self.wide(x))))

    def forward(self, x):
        if self.post:
            x = self.norm1(x + self.attention(x))
            return self.norm2(x + self.mlp(x))
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    def __init__(self, depth, width, heads, context, dropout, vocabulary=0, features=0, classes=0, causal=False, post=False,
                 activation="none"):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width) if vocabulary else nn.Linear(features, width)
        self.places = nn.Parameter(torch.zeros(512 if post else context, width))
        self.types = nn.Embedding(2, width) if post else None
        self.first = nn.LayerNorm(width) if post else nn.Identity()
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.Sequential(*[Block(width, heads, dropout, causal, post, activation) for _ in range(depth)])
        self.last = nn.Identity() if post else nn.LayerNorm(width)
        self.head = nn.Linear(width, classes) if classes else None
        self.post = post

    def forward(self, x):
        h = self.embed(x) + self.places[:x.shape[1]]
        if self.types is not None:
            h = h + self.types.weight[0]
        h = self.last(self.blocks(self.drop(self.first(h))))
        if self.head is None:
            return F.linear(h, self.embed.weight)
        return self.head(h[:, 0] if self.post else h.mean(1))


def network(name, batch, device):
    """The network and a batch for it."""
    tokens = lambda t, v: torch.randint(0, v, (batch, t), device=device)
    classes = lambda c: torch.randint(0, c, (batch,), device=device)
    if name in ("lstm", "gru"):
        model = Recurrent(nn.LSTM, 192) if name == "lstm" else Recurrent(nn.GRU, 160)
        return model, torch.randn(batch, 60, 50, device=device), classes(3)
    if name == "encoder":
        return Transformer(6, 192, 6, 64, 0.1, features=50, classes=3), torch.randn(batch, 64, 50, device=device), classes(3)
    if name == "gpt-char":
        return Transformer(6, 384, 6, 256, 0.2, vocabulary=65, causal=True, activation="tanh"), tokens(256, 65), tokens(256, 65)
    if name == "gpt2":
        return (Transformer(12, 768, 12, 1024, 0.0, vocabulary=50304, causal=True, activation="tanh"), tokens(1024, 50304),
                tokens(1024, 50304))
    if name in ("bert-small", "bert-base"):
        depth, width, heads = (4, 512, 8) if name == "bert-small" else (12, 768, 12)
        return Transformer(depth, width, heads, 128, 0.1, vocabulary=30522, classes=2, post=True), tokens(128, 30522), classes(2)
    import torchvision
    model = getattr(torchvision.models, name.replace("-", "_"))()
    x = torch.randn(batch, 3, 224, 224, device=device).to(memory_format=torch.channels_last)
    return model.to(memory_format=torch.channels_last), x, classes(1000)


# What lockstep's presets need beyond their name to be the same network.
SAME = {"gpt2": ["model.vocabulary=50304", "model.dropout=0"], "lstm": ["model.loss=cross-entropy"],
        "gru": ["model.loss=cross-entropy"], "encoder": ["model.loss=cross-entropy"],
        "bert-small": ["model.classes=2"], "bert-base": ["model.classes=2"]}


def torch_us(name, batch, precision, compiled, seconds=1.0):
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision != "fp32"
    torch.backends.cudnn.benchmark = True
    torch._dynamo.reset()
    model, x, target = network(name, batch, "cuda")
    model = model.cuda().train()
    call = torch.compile(model) if compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True, capturable=True)
    dtype = PRECISION[precision]

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype or torch.bfloat16, enabled=dtype is not None):
            y = call(x)
            loss = F.cross_entropy(y.reshape(-1, y.shape[-1]).float(), target.reshape(-1))
        loss.backward()
        optimizer.step()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(4):
            step()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        step()
    times, begin = [], time.perf_counter()
    for _ in range(10):
        graph.replay()
    while time.perf_counter() - begin < seconds or len(times) < 5:
        torch.cuda.synchronize()
        count = 5
        start = time.perf_counter()
        for _ in range(count):
            graph.replay()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / count * 1e6)
    return statistics.median(times)


def lockstep_us(program, name, batch, precision, steps):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(f"model: {{preset: {name}}}\ndata: {{kind: synthetic, samples: {4 * batch}}}\n"
                   f"train: {{batch: {batch}, steps: {steps}, precision: {precision}, optimizer: {{name: adamw, lr: 1e-5}}}}\n"
                   "parallel: {backend: cuda, ranks: 1, fuse: true}\n")
        file.flush()
        out = subprocess.run([program, "train", file.name, "--json", "--quiet"]
                             + [a for s in SAME.get(name, []) for a in ("--set", s)],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=25)
        if out.returncode:
            return None, out.stderr.strip().splitlines()[-1:]
        return json.loads(out.stdout)["step_time_us"]["median"], None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--cells", help="network:batch:precision,... (default: all)")
    parser.add_argument("--eager", action="store_true", help="do not compile (compiling takes most of the time)")
    parser.add_argument("--ours", action="store_true", help="lockstep alone")
    args = parser.parse_args()
    cells = CELLS
    if args.cells:
        cells = [(n, int(b), p, 0) for n, b, p in (c.split(":") for c in args.cells.split(","))]
    print(f"{'network':16} {'batch':>5} {'prec':5} {'lockstep us':>22} {'graph us':>10} {'compiled us':>11} {'ratio':>6} goal",
          flush=True)
    for name, batch, precision, goal in cells:
        begin = time.perf_counter()
        try:
            first, error = lockstep_us(args.program, name, batch, precision, 60)
        except subprocess.TimeoutExpired:
            first, error = None, "too slow"
        theirs = {}
        for compiled in [] if args.ours else [False] if args.eager else [False, True]:
            try:
                theirs[compiled] = torch_us(name, batch, precision, compiled)
            except Exception as failure:  # the other form still counts
                print(f"  PyTorch, compiled {compiled}: {str(failure).splitlines()[0][:120]}", file=sys.stderr)
            torch.cuda.empty_cache()
        ours = [first, lockstep_us(args.program, name, batch, precision, 60)[0] if first and not args.ours else first]
        text = f"{ours[0]:10.1f} {ours[1]:10.1f}" if first else f"{'-':>10} {'-':>10}"
        ratio = min(theirs.values()) / statistics.median(ours) if first and theirs else float("nan")
        print(f"{name:16} {batch:5} {precision:5} {text:>22} {theirs.get(False, float('nan')):10.1f} "
              f"{theirs.get(True, float('nan')):11.1f} {ratio:6.2f} {goal or '':>4}  ({time.perf_counter() - begin:.0f} s)"
              + (f" {error}" if error else ""), flush=True)


if __name__ == "__main__":
    main()
