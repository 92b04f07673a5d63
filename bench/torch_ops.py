#!/usr/bin/python3
"""Convolution, attention and recurrent ops against PyTorch: values, gradients and times, in one run.

    bench/torch_ops.py --run-op build/release/tests/graph/bench_run_op [--only attention,lstm] [--dtypes f32,bf16]

Both sides get the same random numbers, rounded to the dtype. The measure of correctness is the distance from PyTorch in
f64 on the same inputs, |ours - f64| / |f64| over all elements; PyTorch's own distance in the dtype stands beside it. Times: an op
of ours in a captured graph; PyTorch's call as it is, five in a row (its backward: autograd for inputs and weights, where ours are
several ops). Ends with 1 if a distance exceeds the limit of its dtype
and twice PyTorch's.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
LIMIT = {"f32": 5e-6, "bf16": 8e-3, "f16": 1e-3}


def median_us(f):
    if not torch.cuda.is_available():
        return float("nan")
    for _ in range(3):
        f()
    torch.cuda.synchronize()
    times = []
    for _ in range(9):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        for _ in range(5):
            f()
        b.record()
        b.synchronize()
        times.append(a.elapsed_time(b) * 200)
    return sorted(times)[4]


def distance(ours, exact):
    a, b = ours.double().cpu().flatten(), exact.double().cpu().flatten()
    return float((a - b).norm() / b.norm())


class Runner:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder

    def __call__(self, op, i, f, inputs, shapes):
        """Runs an op on tensors; shapes: (dtype, dims) of each output. Returns outputs and microseconds."""
        command = [self.args.run_op, self.args.backend, self.args.precision, op, ",".join(map(str, i)) or "-",
                   ",".join(map(str, f)) or "-"]
        for k, x in enumerate(inputs):
            path, x = os.path.join(self.folder, f"in{k}"), x.detach().cpu().contiguous()
            name = next((n for n, d in DTYPES.items() if d == x.dtype), "u8")
            with open(path, "wb") as file:
                file.write(x.view(torch.uint8).numpy().tobytes())
            command.append(f"{name}:{','.join(map(str, x.shape))}:{path}")
        paths = [os.path.join(self.folder, f"out{k}") for k in range(len(shapes))]
        done = subprocess.run(command + [":"] + paths, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{op}: {done.stdout}{done.stderr}".strip())
        outputs = []
        for path, (dtype, dims) in zip(paths, shapes):
            with open(path, "rb") as file:
                outputs.append(torch.frombuffer(bytearray(file.read()), dtype=dtype).reshape(dims))
        return outputs, float(done.stdout)


class Table:
    def __init__(self):
        self.failed = False
        print(f"{'op':14s} {'case':34s} {'dtype':5s} {'what':6s} {'ours':>9s} {'torch':>9s}   {'us':>9s} {'torch us':>9s}")

    def row(self, op, case, dtype, what, ours, theirs, exact, us, torch_us):
        mine, other = distance(ours, exact), distance(theirs, exact)
        bad = not mine <= max(LIMIT[dtype], 2 * other)
        self.failed |= bad
        print(f"{op:14s} {case:34s} {dtype:5s} {what:6s} {mine:9.1e} {other:9.1e}   {us:9.1f} {torch_us:9.1f}"
              f"{'  TOO FAR' if bad else ''}", flush=True)


def rounded(shape, dtype, device, scale=1.0):
    return (torch.randn(shape, device=device) * scale).to(DTYPES[dtype])


def gradients(forward, inputs, dy, dtype):
    """Values and gradients of forward(*inputs), which is computed in the dtype; and its two times."""
    leaves = [x.detach().to(dtype).requires_grad_() for x in inputs]
    y = forward(*leaves)
    grad = torch.autograd.grad(y, leaves, dy.to(dtype), retain_graph=True)
    exact = dtype == torch.float64
    times = (0, 0) if exact else (median_us(lambda: forward(*leaves)),
                                  median_us(lambda: torch.autograd.grad(y, leaves, dy.to(dtype), retain_graph=True)))
    return y.detach(), [g.detach() for g in grad], times


def convolution(run, table, device, dtype):
    for case, n, h, c, o, k, stride, pad, groups in (("3x3, 64 at 56", 8, 56, 64, 64, 3, 1, 1, 1),
                                                     ("3x3 stride 2, 64 to 128 at 57", 3, 57, 64, 128, 3, 2, 1, 1),
                                                     ("1x1, 64 to 256 at 28", 8, 28, 64, 256, 1, 1, 0, 1),
                                                     ("7x7 stride 2, 3 to 64 at 112", 4, 112, 3, 64, 7, 2, 3, 1),
                                                     ("5x5, 1 to 284 at 28", 4, 28, 1, 284, 5, 1, 2, 1),
                                                     ("3x3 stride 2, 37 to 53 at 29", 5, 29, 37, 53, 3, 2, 1, 1),
                                                     ("5x5 in 4 groups, 40 to 24 at 14", 9, 14, 40, 24, 5, 1, 2, 4),
                                                     ("depthwise 5x5, 96 at 14", 8, 14, 96, 96, 5, 1, 2, 96)):
        out = (h + 2 * pad - k) // stride + 1
        x, w = rounded((n, h, h, c), dtype, device), rounded((o, k, k, c // groups), dtype, device, (k * k * c // groups) ** -0.5)
        dy = rounded((n, out, out, o), dtype, device)

        def forward(a, b):
            return F.conv2d(a.permute(0, 3, 1, 2), b.permute(0, 3, 1, 2), None, stride, pad, 1, groups).permute(0, 2, 3, 1)

        exact_y, exact, _ = gradients(forward, (x, w), dy, torch.float64)
        y, theirs, times = gradients(forward, (x, w), dy, DTYPES[dtype])
        attrs, low = [stride, stride, pad, pad, pad, pad, 1, 1, groups], DTYPES[dtype]
        (mine,), us = run("conv2d", attrs, [], (x, w), [(low, y.shape)])
        table.row("conv2d", case, dtype, "y", mine, y, exact_y, us, times[0])
        (mine,), us = run("conv2d_dx", attrs + [h, h], [], (dy, w), [(low, x.shape)])
        table.row("conv2d", case, dtype, "dx", mine, theirs[0], exact[0], us, times[1])
        (mine,), us = run("conv2d_dw", attrs + [k, k], [], (dy, x), [(torch.float32, w.shape)])
        table.row("conv2d", case, dtype, "dw", mine, theirs[1], exact[1], us, times[1])


def attention(run, table, device, dtype):
    step = torch.zeros(64, dtype=torch.uint8)
    for case, n, t, heads, size, causal in (("gpt2, 4", 4, 1024, 12, 64, True), ("gpt-char, 64", 64, 256, 6, 64, True),
                                            ("bert-base, 32", 32, 128, 12, 64, False), ("encoder, 256", 256, 64, 6, 32, False),
                                            ("odd", 3, 197, 3, 80, True), ("heads of 128", 2, 512, 8, 128, True),
                                            ("heads of 36", 3, 250, 4, 36, True), ("heads of 160", 2, 300, 3, 160, True),
                                            ("heads of 256", 2, 512, 2, 256, False), ("heads of 320", 1, 130, 2, 320, True),
                                            ("heads of 37", 2, 70, 3, 37, False)):
        d, low = heads * size, DTYPES[dtype]
        qkv, dy = rounded((n, t, 3 * d), dtype, device), rounded((n, t, d), dtype, device)

        def forward(x):
            q, k, v = (part.reshape(n, t, heads, size).transpose(1, 2) for part in x.chunk(3, 2))
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).reshape(n, t, d)

        exact_y, exact, _ = gradients(forward, (qkv,), dy, torch.float64)
        y, theirs, times = gradients(forward, (qkv,), dy, low)
        attrs = [heads, int(causal), 0]
        (mine, lse), us = run("attention", attrs, [0], (qkv, step), [(low, y.shape), (torch.float32, (n, heads, t))])
        table.row("attention", case, dtype, "y", mine, y, exact_y, us, times[0])
        (grad,), us = run("attention_dx", attrs, [0], (dy, qkv, mine, lse, step), [(low, qkv.shape)])
        table.row("attention", case, dtype, "dqkv", grad, theirs[0], exact[0], us, times[1])


def recurrent(run, table, device, dtype, gru):
    gates, name = (3, "gru") if gru else (4, "lstm")
    width = 160 if gru else 192
    for case, n, t, h in (("32 samples, 60 steps", 32, 60, width), ("256 samples, 60 steps", 256, 60, width), ("odd", 3, 17, 37)):
        low = DTYPES[dtype]
        # The op begins behind the product with the layer's input: PyTorch gets an input of as many numbers, and W_ih = 1.
        x, w = rounded((n, t, gates * h), dtype, device), rounded((gates * h, h), dtype, device, h ** -0.5)
        b, dy = rounded((h,), dtype, device).float(), rounded((n, t, h), dtype, device)
        layer = (torch.nn.GRU if gru else torch.nn.LSTM)(gates * h, h, batch_first=True, device=device)

        def weights(module, a):
            with torch.no_grad():
                module.weight_ih_l0.copy_(torch.eye(gates * h))
                module.weight_hh_l0.copy_(a)
                module.bias_ih_l0.zero_()
                module.bias_hh_l0.zero_()
                if gru:
                    module.bias_hh_l0[2 * h:].copy_(b)
            return module

        results = []
        for as_dtype in (torch.float64, low):
            module = weights(layer.to(as_dtype), w)
            module.flatten_parameters()
            leaf = x.detach().to(as_dtype).requires_grad_()
            wanted, grad = [leaf, module.weight_hh_l0], dy.to(as_dtype)
            y = module(leaf)[0]
            back = torch.autograd.grad(y, wanted, grad, retain_graph=True)
            exact = as_dtype == torch.float64
            times = (0, 0) if exact else (median_us(lambda: module(leaf)),
                                          median_us(lambda: torch.autograd.grad(y, wanted, grad, retain_graph=True)))
            results.append((y.detach(), [g.detach() for g in back], times))
        (exact_y, exact, _), (y, theirs, times) = results
        states, all_gates = (n, t, h), (n, t, gates * h)
        if gru:
            (mine, kept, m), us = run("gru_chain", [0], [], (x, w, b), [(low, states), (low, all_gates), (low, states)])
            back = (dy, mine, kept, m, w)
        else:
            (mine, c, kept), us = run("lstm_chain", [0], [], (x, w), [(low, states), (torch.float32, states), (low, all_gates)])
            back = (dy, c, kept, w)
        table.row(name, case, dtype, "y", mine, y, exact_y, us, times[0])
        grads, us = run(f"{name}_chain_dx", [0], [], back, [(low, all_gates)] * (2 if gru else 1))
        table.row(name, case, dtype, "dx", grads[0], theirs[0], exact[0], us, times[1])
        before = torch.cat((torch.zeros(n, 1, h, dtype=low), mine[:, :-1]), 1)
        dw = grads[-1].reshape(-1, gates * h).double().T @ before.reshape(-1, h).double()
        table.row(name, case, dtype, "dw_hh", dw, theirs[1], exact[1], us, times[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run-op", required=True, help="the program bench_run_op")
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--precision", choices=("fp32", "tf32"), default="fp32", help="of f32 products")
    parser.add_argument("--only", default="conv,attention,lstm,gru")
    parser.add_argument("--dtypes", default="f32,bf16,f16")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(1)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = args.precision == "tf32"
    LIMIT["f32"] = {"fp32": LIMIT["f32"], "tf32": 2e-3}[args.precision]
    table = Table()
    families = {"conv": convolution, "attention": attention, "lstm": lambda *a: recurrent(*a, gru=False),
                "gru": lambda *a: recurrent(*a, gru=True)}
    with tempfile.TemporaryDirectory() as folder:
        for name in args.only.split(","):
            for dtype in args.dtypes.split(","):
                try:
                    families[name](Runner(args, folder), table, device, dtype)
                except RuntimeError as error:
                    table.failed = True
                    print(f"{name} {dtype}: {error}", flush=True)
    sys.exit(table.failed)


if __name__ == "__main__":
    main()
