#!/usr/bin/env python3
"""lockstep against PyTorch, network by network, in one run: step times of both, and their ratio.

PyTorch's step is forward, loss, backward and AdamW. On one GPU it is one CUDA graph, once as it is and once compiled
by torch.compile; the faster of the two counts. Its times are taken between two runs of lockstep. On a CPU its forms
are processes that wait for their turn: eager, traced by torch.jit, and both with PyTorch's AVX-512 loops, all with
OpenBLAS's AVX-512 kernels and channels last. They and lockstep take turns of about --turn seconds on the same
processors, and each turn gives a time per step. The form that was fastest in its best turn counts: a ratio for each
round. With --clock cpu times are the processor's, which other programs on the machine lengthen little: with one thread
they are those of an idle machine.
Needs torch and torchvision.
  bench/families_vs_torch.py --program build/release/bin/lockstep [--cells lstm:32:fp32,gpt2:16:bf16] [--eager]
  bench/families_vs_torch.py --program build/dev/bin/lockstep --backend cpu [--threads 1] [--rounds 9]
A ratio above 1: lockstep is faster.
"""
import argparse
import json
import os
import resource
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
CPU_CELLS = [("lstm", 32, "fp32", 2), ("lstm", 128, "fp32", 2), ("gru", 32, "fp32", 2), ("gru", 128, "fp32", 2),
             ("encoder", 8, "fp32", 1.1), ("encoder", 32, "fp32", 1.1), ("gpt-small", 12, "fp32", 1.1),
             ("resnet18", 4, "fp32", 1.1), ("resnet18", 8, "fp32", 1.1), ("efficientnet-b0", 4, "fp32", 1.1),
             ("bert-small", 4, "fp32", 1.1), ("convolution", 64, "fp32", 1.1)]
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
        dropout = self.dropout if self.training else 0.0
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=self.causal)
        else:  # PyTorch 1
            y = F._scaled_dot_product_attention(q, k, v, None, dropout, False, self.causal)[0]
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
    if name == "gpt-small":
        return Transformer(4, 128, 4, 64, 0.0, vocabulary=65, causal=True, activation="tanh"), tokens(64, 65), tokens(64, 65)
    if name == "convolution":
        layers = [nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
                  nn.MaxPool2d(2), nn.Flatten(), nn.Linear(3136, 128), nn.ReLU(), nn.Dropout(0.3), nn.Linear(128, 10)]
        return nn.Sequential(*layers), torch.randn(batch, 1, 28, 28, device=device), classes(10)
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
MODELS = {"gpt-small": "{preset: gpt-char, width: 128, depth: 4, heads: 4, context: 64, dropout: 0}",
          "convolution": "{input: [28, 28], loss: cross-entropy, layers: ["
                         "conv2d: {filters: 32, activation: relu}, pool, conv2d: {filters: 64, activation: relu}, pool, "
                         "dense: {units: 128, activation: relu, dropout: 0.3}, dense: {units: 10}]}"}


def make_step(call, x, target, optimizer, dtype):
    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(x.device.type, dtype or torch.bfloat16, enabled=dtype is not None):
            y = call(x)
            loss = F.cross_entropy(y.reshape(-1, y.shape[-1]).float(), target.reshape(-1))
        loss.backward()
        optimizer.step()
    return step


def torch_us(name, batch, precision, compiled, seconds=1.0):
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision != "fp32"
    torch.backends.cudnn.benchmark = True
    torch._dynamo.reset()
    model, x, target = network(name, batch, "cuda")
    model = model.cuda().train()
    call = torch.compile(model) if compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True, capturable=True)
    step = make_step(call, x, target, optimizer, PRECISION[precision])
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


def lockstep_us(program, name, batch, precision, steps, parallel="backend: cuda, ranks: 1, fuse: true, side_lane: on", seconds=25):
    model = MODELS.get(name, f"{{preset: {name}}}")
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(f"model: {model}\ndata: {{kind: synthetic, samples: {4 * batch}}}\n"
                   f"train: {{batch: {batch}, steps: {steps}, precision: {precision}, optimizer: {{name: adamw, lr: 1e-5}}}}\n"
                   f"parallel: {{{parallel}}}\n")
        file.flush()
        out = subprocess.run([program, "train", file.name, "--json", "--quiet"]
                             + [a for s in SAME.get(name, []) for a in ("--set", s)],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=seconds)
        if out.returncode:
            return None, out.stderr.strip().splitlines()[-1:]
        return json.loads(out.stdout)["step_time_us"]["median"], None


# ---- CPU: forms of PyTorch, each a process that measures when it is asked ----

FORMS = {"eager": (False, "avx2"), "traced": (True, "avx2"), "eager avx512": (False, "avx512"),
         "traced avx512": (True, "avx512")}


def torch_worker(cell, threads, traced):
    """For each number of steps read: their median time in us."""
    name, batch, precision = cell.split(":")
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    model, x, target = network(name, int(batch), "cpu")
    call = torch.jit.trace(model, x, check_trace=False) if traced else model
    step = make_step(call, x, target, torch.optim.AdamW(model.parameters(), lr=1e-5, foreach=True), PRECISION[precision])
    for _ in range(3):
        step()
    print("ready", flush=True)
    for line in sys.stdin:
        count, times = int(line), []
        used = time.process_time()
        for _ in range(count):
            begin = time.perf_counter()
            step()
            times.append(time.perf_counter() - begin)
        print(statistics.median(times) * 1e6, (time.process_time() - used) / count * 1e6, flush=True)


class Form:
    def __init__(self, cell, threads, form):
        traced, capability = FORMS[form]
        environment = dict(os.environ, OPENBLAS_CORETYPE="SkylakeX", ATEN_CPU_CAPABILITY=capability,
                           OMP_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads))
        self.child = subprocess.Popen([sys.executable, __file__, "--worker", cell, "--threads", str(threads), "--program", ""]
                                      + ["--traced"] * traced, env=environment, text=True, stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.ready = self.child.stdout.readline() == "ready\n"

    def us(self, steps, clock):
        print(steps, file=self.child.stdin, flush=True)
        return float(self.child.stdout.readline().split()[clock == "cpu"])

    def close(self):
        self.child.stdin.close()
        self.child.wait()


def lockstep_cpu_us(program, name, batch, precision, steps, parallel):
    """Of the processor's time: what more steps take longer."""
    few, used = 2, []
    for count in (few, few + steps):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        if lockstep_us(program, name, batch, precision, count, parallel, 300)[1]:
            raise RuntimeError("a run that worked before failed")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return (used[1] - used[0]) / steps * 1e6


def compare_cpu(args, cells):
    processors = sorted(os.sched_getaffinity(0))[-args.threads:]
    os.sched_setaffinity(0, processors)
    parallel = f"backend: cpu, ranks: 1, threads: {args.threads}, bind: false"
    print(f"{args.clock} clock, {args.threads} threads on processors {processors}, load {os.getloadavg()[0]:.1f}, torch {torch.__version__}; ms, "
          "least and median of the turns\n"
          f"{'network':16} {'batch':>5} {'prec':5} {'lockstep':>17} {'PyTorch':>17} {'form':14} ratio: median (quartiles)  goal  load")
    for name, batch, precision, goal in cells:
        forms = {f: Form(f"{name}:{batch}:{precision}", args.threads, f) for f in FORMS}
        forms = {f: form for f, form in forms.items() if form.ready}
        ours, theirs, load = [], {f: [] for f in forms}, []
        first, error = lockstep_us(args.program, name, batch, precision, 3, parallel, 120)
        if error:
            print(f"{name:16} {batch:5} {precision:5} {error}", flush=True)
            continue
        steps = {f: max(2, round(args.turn * 1e6 / form.us(2, "cpu"))) for f, form in forms.items()}
        own = max(2, round(args.turn * 1e6 / first))
        for _ in range(args.rounds):
            ours.append(lockstep_cpu_us(args.program, name, batch, precision, own, parallel) if args.clock == "cpu" else
                        lockstep_us(args.program, name, batch, precision, own, parallel, 300)[0])
            for form in forms:
                theirs[form].append(forms[form].us(steps[form], args.clock))
            load.append(os.getloadavg()[0])
        for form in forms.values():
            form.close()
        best = min(theirs, key=lambda f: min(theirs[f]))
        low, middle, high = statistics.quantiles([t / o for t, o in zip(theirs[best], ours)], n=4)
        text = [f"{min(t) / 1e3:8.1f} {statistics.median(t) / 1e3:8.1f}" for t in (ours, theirs[best])]
        print(f"{name:16} {batch:5} {precision:5} {text[0]} {text[1]} {best:14} {middle:13.2f} ({low:.2f}-{high:.2f}) {goal or '':>9} "
              f"{max(load):5.1f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--cells", help="network:batch:precision,... (default: all)")
    parser.add_argument("--eager", action="store_true", help="do not compile (compiling takes most of the time)")
    parser.add_argument("--ours", action="store_true", help="lockstep alone")
    parser.add_argument("--backend", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--threads", type=int, default=1, help="of both, on a CPU")
    parser.add_argument("--rounds", type=int, default=9, help="turns of each, on a CPU")
    parser.add_argument("--turn", type=float, default=1, help="seconds of a turn")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="of times on a CPU")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--traced", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        torch_worker(args.worker, args.threads, args.traced)
        return
    cells = CPU_CELLS if args.backend == "cpu" else CELLS
    if args.cells:
        goals = {c[:3]: c[3] for c in cells}
        cells = [(n, int(b), p, goals.get((n, int(b), p), 0)) for n, b, p in (c.split(":") for c in args.cells.split(","))]
    if args.backend == "cpu":
        compare_cpu(args, cells)
        return
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
