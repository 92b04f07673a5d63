#!/usr/bin/env python3
"""Recurrent chains on a GPU: microseconds a position, forward and gradient, by width, samples and dtype, and the largest
distance of an output from the same sums in f64 (bench_run_op on random tensors).
  bench/chain_times.py BENCH_RUN_OP [WIDTHS [BATCHES]]"""
import subprocess
import sys
import tempfile

import torch

T = 30
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def lstm(x, w):
    h = c = torch.zeros(x.shape[0], w.shape[1], dtype=x.dtype, device=x.device)
    y, states, gates = [], [], []
    for t in range(T):
        i, f, g, o = (x[:, t] + h @ w.T).chunk(4, 1)
        i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
        c = f * c + i * g
        h = o * c.tanh()
        y.append(h), states.append(c), gates.append(torch.cat([i, f, g, o], 1))
    return [torch.stack(v, 1) for v in (y, states, gates)]


def lstm_dx(dy, c, gates, w):
    dh = dc = torch.zeros_like(dy[:, 0])
    out = [None] * T
    for t in reversed(range(T)):
        i, f, g, o = gates[:, t].chunk(4, 1)
        q, before = c[:, t].tanh(), c[:, t - 1] if t else torch.zeros_like(dc)
        up = dy[:, t] + dh
        state = dc + up * o * (1 - q * q)
        d = torch.cat([state * g * i * (1 - i), state * before * f * (1 - f), state * i * (1 - g * g), up * q * o * (1 - o)], 1)
        dc, dh, out[t] = state * f, d @ w, d
    return [torch.stack(out, 1)]


def gru(x, w, b):
    h = torch.zeros(x.shape[0], w.shape[1], dtype=x.dtype, device=x.device)
    y = []
    for t in range(T):
        r, z, n = (h @ w.T).chunk(3, 1)
        xr, xz, xn = x[:, t].chunk(3, 1)
        r, z = (xr + r).sigmoid(), (xz + z).sigmoid()
        h = (1 - z) * (xn + r * (n + b)).tanh() + z * h
        y.append(h)
    return [torch.stack(y, 1)]


def gru_dx(dy, y, gates, m, w):
    dh = torch.zeros_like(dy[:, 0])
    out = [None] * T
    for t in reversed(range(T)):
        r, z, n = gates[:, t].chunk(3, 1)
        up, before = dy[:, t] + dh, y[:, t - 1] if t else torch.zeros_like(dh)
        inner = up * (1 - z) * (1 - n * n)
        first, second = inner * m[:, t] * r * (1 - r), up * (before - n) * z * (1 - z)
        dh = up * z + torch.cat([first, second, inner * r], 1) @ w
        out[t] = torch.cat([first, second, inner], 1)
    return [torch.stack(out, 1)]


def main():
    program, widths, batches = (sys.argv[1:] + ["300,512,1024,2048", "32,64"][len(sys.argv) - 2:])[:3]
    with tempfile.TemporaryDirectory() as folder:
        def run(op, dtype, outputs, inputs, reference):
            words = []
            for i, value in enumerate(inputs):
                value.cpu().view(torch.uint8).numpy().tofile(f"{folder}/{i}")
                name = "f32" if value.dtype == torch.float32 else dtype
                words.append(f"{name}:{','.join(map(str, value.shape))}:{folder}/{i}")
            out = subprocess.run([program, "cuda", "fp32", op, "0", "-", *words, ":",
                                  *[f"{folder}/out{i}" for i in range(outputs)]], capture_output=True, text=True)
            if out.returncode:
                return out.stderr.strip()[-60:]
            right = reference(*[v.double() for v in inputs])[0]
            got = torch.frombuffer(bytearray(open(f"{folder}/out0", "rb").read()), dtype=DTYPES[dtype]).view(right.shape).cuda()
            error = float((got.double() - right).abs().max() / right.abs().max())
            return f"{float(out.stdout) / T:7.2f} ({error:.1e})"
        for dtype in DTYPES:
            for h in map(int, widths.split(",")):
                for n in map(int, batches.split(",")):
                    def drawn(*dims, low=-1.0, high=1.0, kind=DTYPES[dtype]):
                        return (torch.rand(dims, device="cuda") * (high - low) + low).to(kind)
                    w = h ** -0.5
                    y, c = drawn(n, T, h), drawn(n, T, h, kind=torch.float32)
                    rows = [run("lstm_chain", dtype, 3, [drawn(n, T, 4 * h), drawn(4 * h, h, low=-w, high=w)], lstm),
                            run("lstm_chain_dx", dtype, 1, [y, c, drawn(n, T, 4 * h, low=0.1, high=0.9),
                                                            drawn(4 * h, h, low=-w, high=w)], lstm_dx),
                            run("gru_chain", dtype, 3, [drawn(n, T, 3 * h), drawn(3 * h, h, low=-w, high=w),
                                                        drawn(h, kind=torch.float32)], gru),
                            run("gru_chain_dx", dtype, 2, [y, y, drawn(n, T, 3 * h, low=0.1, high=0.9), y,
                                                           drawn(3 * h, h, low=-w, high=w)], gru_dx)]
                    print(f"{dtype:5} {h:5} {n:4}  lstm {rows[0]} {rows[1]}  gru {rows[2]} {rows[3]}", flush=True)


if __name__ == "__main__":
    main()
