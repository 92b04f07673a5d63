#!/usr/bin/python3
"""The peer: the same network, loss, optimizer and batch in PyTorch on the CPU, timed per step.

One process of T threads, or N gloo ranks (DistributedDataParallel) of T threads each. A step is: take a batch that
is in memory, zero gradients, forward, loss, backward, update. Prints one JSON document with the median step time.
"""
import argparse
import json
import os
import statistics
import time

MODELS = {
    "mlp-medium": ([799, 256, 128, 64, 192], 0.2),
    "mlp-large": ([4608, 1024, 1024, 512, 512, 256, 768], 0.3),
}


def network(torch, name):
    widths, rate = MODELS[name]
    layers = []
    for i in range(len(widths) - 1):
        layers.append(torch.nn.Linear(widths[i], widths[i + 1]))
        if i < len(widths) - 2:
            layers += [torch.nn.ReLU(), torch.nn.Dropout(rate)]
    return torch.nn.Sequential(*layers), widths[0], widths[-1]


def run(rank, args, out):
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    import torch
    torch.set_num_threads(args.threads)
    torch.manual_seed(42)
    model, inputs, outputs = network(torch, args.model)
    if args.ranks > 1:
        import torch.distributed as dist
        dist.init_process_group("gloo", init_method="file://" + args.store, rank=rank, world_size=args.ranks)
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss_of = torch.nn.MSELoss()
    rows = args.batch // args.ranks + (rank < args.batch % args.ranks)
    samples = max(2 * rows, 1024)
    x, y = torch.randn(samples, inputs), torch.randn(samples, outputs)
    times = []
    for step in range(args.steps + args.warmup):
        start = time.perf_counter()
        begin = step * rows % (samples - rows + 1)
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model(x[begin:begin + rows]), y[begin:begin + rows])
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - start)
    if rank == 0:
        times = times[args.warmup:]
        out.put({"torch": torch.__version__, "steps": len(times),
                 "step_time_us": {"median": statistics.median(times) * 1e6}})
    if args.ranks > 1:
        dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=sorted(MODELS), required=True)
    parser.add_argument("--batch", type=int, required=True, help="global batch")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2, help="threads per rank")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--warmup", type=int, default=10)
    args = parser.parse_args()
    import multiprocessing
    import tempfile
    context = multiprocessing.get_context("spawn")
    out = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        args.store = os.path.join(folder, "store")
        os.environ["OMP_NUM_THREADS"] = str(args.threads)
        workers = [context.Process(target=run, args=(r, args, out)) for r in range(args.ranks)]
        for worker in workers:
            worker.start()
        result = out.get(timeout=600)
        for worker in workers:
            worker.join()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
