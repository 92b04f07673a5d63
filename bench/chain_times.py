#!/usr/bin/env python3
"""Microseconds a position of recurrent chains, forward and gradient, by width, samples and dtype: bench/run_op on random tensors.
  bench/chain_times.py BENCH_RUN_OP [WIDTHS] [BATCHES]"""
import subprocess
import sys
import tempfile

import torch

program, widths, batches = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "300,512,1024,2048", sys.argv[3] if len(sys.argv) > 3 else "32,64"
T = 30
with tempfile.TemporaryDirectory() as folder:
    def tensor(name, dtype, *dims, scale=0.05):
        data = (torch.rand(dims) - 0.5) * 2 * scale
        data = data.to({"f32": torch.float32, "bf16": torch.bfloat16}[dtype])
        data.view(torch.uint8 if dims else torch.uint8).numpy().tofile(f"{folder}/{name}")
        return f"{dtype}:{','.join(map(str, dims))}:{folder}/{name}"

    def time(op, inputs, outputs):
        out = subprocess.run([program, "cuda", "fp32", op, "0", "-", *inputs, ":", *[f"{folder}/out{i}" for i in range(outputs)]],
                             capture_output=True, text=True)
        return float(out.stdout) / T if out.returncode == 0 else out.stderr.strip()[-60:]
    for dtype in ("f32", "bf16"):
        for h in map(int, widths.split(",")):
            for n in map(int, batches.split(",")):
                rows = []
                for kind, g in (("lstm", 4), ("gru", 3)):
                    x, w = tensor("x", dtype, n, T, g * h), tensor("w", dtype, g * h, h)
                    y, c, gates = tensor("y", dtype, n, T, h), tensor("c", "f32", n, T, h), tensor("g", dtype, n, T, g * h, scale=0.9)
                    if kind == "lstm":
                        rows += [time("lstm_chain", [x, w], 3), time("lstm_chain_dx", [y, c, gates, w], 1)]
                    else:
                        rows += [time("gru_chain", [x, w, tensor("b", "f32", h)], 3), time("gru_chain_dx", [y, y, gates, y, w], 2)]
                print(f"{dtype:5} {h:5} {n:4}  lstm {rows[0]} {rows[1]}  gru {rows[2]} {rows[3]}", flush=True)
