#!/usr/bin/env python3
"""lockstep's ddp against PyTorch's DistributedDataParallel on several GPUs, in one run: step times of both, and their ratio.

PyTorch's step (forward, loss, backward with its all-reduces, AdamW) is one CUDA graph on each rank, as it is and, with
--compile, compiled. lockstep runs before and after it. Both train one global batch on 1, 2 ... GPUs (--ranks), with peer
access and without (--peer; NCCL_P2P_DISABLE=1). Networks are those of families_vs_torch.py, the study's dense ones, and
dense ones drawn from a seed (--random). Needs torch and torchvision.
  bench/ddp_vs_torch.py --program build/cuda/bin/lockstep [--ranks 1,2] [--peer on,off] [--random 6 --seed 20261127]
A ratio above 1: lockstep is faster.
"""
import argparse
import os
import random
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

import families_vs_torch as families

CELLS = ["medium:16:fp32", "medium:1024:fp32", "medium:16384:fp32", "large:64:fp32", "large:16384:fp32", "extreme:2048:bf16",
         "gpt2:32:bf16", "resnet50:256:bf16", "bert-base:128:bf16"]
DENSE = {"medium": ([799, 256, 128, 64, 192], 0.2), "large": ([4608, 1024, 1024, 512, 512, 256, 768], 0.3),
         "extreme": ([4096, 8192, 6144, 4096, 2048, 1024, 512], 0.0)}


def dense(widths, rate):
    layers = []
    for a, b in zip(widths, widths[1:]):
        layers += [nn.Linear(a, b), nn.ReLU(), nn.Dropout(rate)]
    return nn.Sequential(*layers[:-2])


def section(widths, rate):
    hidden = [f"dense: {{units: {w}, activation: relu, dropout: {rate}}}" for w in widths[1:-1]]
    return f"{{input: {widths[0]}, loss: mse, layers: [{', '.join(hidden)}, dense: {{units: {widths[-1]}}}]}}"


def make(name, rows):
    """The network, a batch for it, and its loss, on this rank's GPU."""
    if name in DENSE:
        widths, rate = DENSE[name]
        return (dense(widths, rate).cuda(), torch.randn(rows, widths[0], device="cuda"),
                torch.randn(rows, widths[-1], device="cuda"), nn.functional.mse_loss)
    model, x, target = families.network(name, rows, "cuda")
    return model.cuda(), x, target, lambda y, t: nn.functional.cross_entropy(y.reshape(-1, y.shape[-1]).float(), t.reshape(-1))


def rank_main(rank, world, cell, compiled, store, results):
    name, batch, precision = cell
    torch.cuda.set_device(rank)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision != "fp32"
    torch.backends.cudnn.benchmark = True
    dtype = families.PRECISION[precision]
    if world > 1:
        dist.init_process_group("nccl", init_method="file://" + store, rank=rank, world_size=world,
                                device_id=torch.device("cuda", rank))
    model, x, target, loss_of = make(name, batch // world)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call = model.train()
        if world > 1:
            call = nn.parallel.DistributedDataParallel(call, device_ids=[rank], gradient_as_bucket_view=True, static_graph=True)
        if compiled:
            call = torch.compile(call)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True, capturable=True)

        def step():
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", dtype or torch.bfloat16, enabled=dtype is not None):
                loss = loss_of(call(x), target)
            loss.backward()
            optimizer.step()
        for _ in range(12):
            step()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        step()
    for _ in range(10):
        graph.replay()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    graph.replay()
    torch.cuda.synchronize()
    count = torch.tensor([max(5, min(500, int(0.1 / (time.perf_counter() - begin))))], device="cuda")
    if world > 1:
        dist.broadcast(count, 0)
    times = []
    for _ in range(7):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(int(count)):
            graph.replay()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / int(count) * 1e6)
    if rank == 0:
        results.put(statistics.median(times))
    time.sleep(0.2)
    os._exit(0)  # NCCL waits for graphs that hold its collectives


def torch_us(cell, world, compiled, limit_s):
    """Median step time; None: it failed or took too long."""
    import tempfile
    context = torch.multiprocessing.get_context("spawn")
    results = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        ranks = [context.Process(target=rank_main, args=(r, world, cell, compiled, folder + "/store", results)) for r in range(world)]
        for rank in ranks:
            rank.start()
        try:
            took = results.get(timeout=limit_s)
        except Exception:
            took = None
        for rank in ranks:
            rank.join(10 if took else 0.1)
            if rank.is_alive():
                rank.kill()
        return took


def lockstep_us(program, cell, world, limit_s):
    name, batch, precision = cell
    steps = 60 if name not in DENSE else 400 if batch < 4096 else 100
    if name in DENSE:
        families.MODELS[name] = section(*DENSE[name])
    parallel = f"backend: cuda, ranks: {world}, fuse: true, side_lane: on, strategy: {'ddp' if world > 1 else 'single'}"
    try:
        return families.lockstep_us(program, name, batch, precision, steps, parallel, limit_s)
    except families.subprocess.TimeoutExpired:
        return None, "too slow"


def draw(count, seed):
    found = []
    for i in range(count):
        draws = random.Random(f"{seed}-{i}")
        widths = [draws.choice([draws.randint(8, 4096), 32 * draws.randint(1, 64)]) for _ in range(draws.randint(3, 7))]
        DENSE[f"drawn-{i}"] = (widths, draws.choice([0.0, 0.2]))
        found.append((f"drawn-{i}", 2 ** draws.randint(4, 13), draws.choice(["fp32", "tf32", "bf16"])))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--cells", default=",".join(CELLS), help="network:batch:precision,...; empty: none")
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--seed", default="20261127")
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("--peer", default="on")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--limit", type=float, default=1e9, help="seconds after which no cell begins")
    args = parser.parse_args()
    begin = time.perf_counter()
    os.environ.update(TORCH_NCCL_ASYNC_ERROR_HANDLING="0", NCCL_NVLS_ENABLE="0", TORCH_NCCL_ENABLE_MONITORING="0")
    cells = [(n, int(b), p) for n, b, p in (c.split(":") for c in args.cells.split(",") if c)] + draw(args.random, args.seed)
    print(f"{torch.cuda.get_device_name(0)} x {torch.cuda.device_count()}, torch {torch.__version__}\n"
          f"{'network':14} {'batch':>6} {'prec':5} {'GPUs':>4} {'peer':4} {'lockstep us':>21} {'PyTorch us':>10} {'ratio':>6}", flush=True)
    for peer in args.peer.split(","):
        os.environ.pop("NCCL_P2P_DISABLE", None)
        if peer == "off":
            os.environ["NCCL_P2P_DISABLE"] = "1"
        for cell in cells:
            for world in (int(r) for r in args.ranks.split(",")):
                if time.perf_counter() - begin > args.limit:
                    sys.exit("the time is up")
                first, error = lockstep_us(args.program, cell, world, 60)
                forms = [torch_us(cell, world, compiled, 90) for compiled in ([False, True] if args.compile else [False])]
                ours = [first, lockstep_us(args.program, cell, world, 60)[0] if first else None]
                theirs = min((t for t in forms if t), default=float("nan"))
                text = f"{ours[0]:10.1f} {ours[1]:10.1f}" if all(ours) else f"{error}"[:80]
                ratio = theirs / statistics.median(ours) if all(ours) else float("nan")
                print(f"{cell[0]:14} {cell[1]:6} {cell[2]:5} {world:4} {peer:4} {text:>21} {theirs:10.1f} {ratio:6.2f}", flush=True)


if __name__ == "__main__":
    main()
