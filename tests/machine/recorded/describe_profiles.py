#!/usr/bin/env python3
"""Writes the profiles that go with the recorded machines of this folder (NAME.profile.json), for replaying plans.

They are DESCRIBED, not measured by lockstep probe: rooflines from data sheets, and curves from
 - H200 on NVLink: all-reduces measured with PyTorch 2.11 on NCCL 2.28.9 (17.5 us up to 1 MB, 33 us at 4 MB, 117 us at
   27.5 MB, 1541 us at 480 MB between two; 24, 40, 144, 2078 us between four), 55 of 67 TFLOP/s in f32, 4.3 TB/s;
 - two cards behind a host bridge: NCCL through host memory (measured between two H200 with peer access off: 10 us at
   8 KiB, 20.8 us at 128 KiB, 61.6 us at 1 MiB, 168 us at 4 MiB, 1010 us at 27.5 MB), data sheet of the RTX 4070 Ti SUPER
   (44 TFLOP/s f32, 672 GB/s), 80 % of it reached;
 - one A6000 (38.7 TFLOP/s, 768 GB/s, data sheet), 80 % of it reached;
 - a processor of two cores: 60 GFLOP/s a core, 12 GB/s, all-reduce between two processes of one node.
Times are in ns, sizes in bytes, as in docs/probe.md."""
import json
import os

here = os.path.dirname(os.path.abspath(__file__))


def flat(ns):
    return [ns, 0.9 * ns, 1.2 * ns]


def linear(backend, threads, rows, widths, flops_per_s, floor_ns, half_flops):
    """A product's rate rises with its size: half of the peak at half_flops."""
    times = {}
    for width in widths:
        for n in rows:
            flops = 2 * n * width * width
            key = (f"op {backend} t{threads} linear f32 ({n}, {width}) f32 ({width}, {width}) f32 ({width}) -> "
                   f"f32 ({n}, {width})")
            times[key] = flat(floor_ns + (flops + half_flops) / flops_per_s * 1e9)
    return times


def memory(bytes_per_s, floor_ns, cache_bytes, cache_bytes_per_s):
    sizes = [49152, 786432, 12582912, 201326592]
    return [[s, *flat(floor_ns + s / (cache_bytes_per_s if s < cache_bytes else bytes_per_s) * 1e9)] for s in sizes]


def curve(points):
    return [[size, *flat(us * 1e3)] for size, us in points]


def gpu(flops_per_s, bytes_per_s, cache_bytes, cache_bytes_per_s, collectives, libraries, capacity):
    times = linear("cuda", 1, [16, 128, 1024, 8192], [256, 1024, 4096], flops_per_s, 2000, 2e7)
    times["launch cuda t1"] = flat(2500)
    times["capacity cuda"] = [capacity] * 3
    for world, size in libraries.items():
        times[f"libraries cuda w{world}"] = [size] * 3
    curves = {"memory cuda t1": memory(bytes_per_s, 1800, cache_bytes, cache_bytes_per_s)}
    for world, points in collectives.items():
        curves[f"all-reduce nccl {world}"] = curve(points)
    return times, curves


def cpu():
    times, curves = {}, {}
    for threads in (1, 2):
        times |= linear("cpu", threads, [16, 128, 1024], [128, 512, 1024], 60e9 * threads, 800, 2e5)
        times[f"launch cpu t{threads}"] = flat(150)
        curves[f"memory cpu t{threads}"] = memory(12e9 * (1 + 0.3 * (threads - 1)), 200, 4 << 20, 40e9 * threads)
    times["contention cpu 2x1 memory"] = [1.5, 1.4, 1.6]
    times["contention cpu 2x1 compute"] = [1.05, 1.0, 1.1]
    times["libraries cpu w1"] = [40 << 20] * 3
    times["libraries cpu w2"] = [60 << 20] * 3
    curves["all-reduce mpi 2"] = curve([(64, 2), (65536, 30), (1 << 20, 350), (16 << 20, 7000), (64 << 20, 30000)])
    return times, curves


MACHINES = {
    "bridge_2x4070ti_super": gpu(0.8 * 44e12, 0.8 * 672e9, 40 << 20, 2e12, {
        2: [(64, 10), (8192, 10), (131072, 20.8), (1 << 20, 61.6), (4 << 20, 168), (27500000, 1010), (480000000, 17300)],
    }, {1: 420 << 20, 2: 620 << 20}, 16600000000),
    "nvlink_4xh200": gpu(55e12, 4.3e12, 40 << 20, 8e12, {
        2: [(64, 17), (1 << 20, 18), (4 << 20, 33), (27500000, 117), (480000000, 1541)],
        4: [(64, 23), (1 << 20, 25), (4 << 20, 40), (27500000, 144), (480000000, 2078)],
    }, {1: 700 << 20, 2: 1000 << 20, 4: 1100 << 20}, 150000000000),
    "half_refused": gpu(0.8 * 38.7e12, 0.8 * 768e9, 6 << 20, 2e12, {}, {1: 450 << 20}, 50900000000),
    "cpu_only": cpu(),
}

for name, (times, curves) in MACHINES.items():
    with open(os.path.join(here, f"{name}.json")) as f:
        machine = json.load(f)
    document = {
        "note": "Described, not measured: see describe_profiles.py, which wrote this file, for the sources.",
        "format": "lockstep profile", "version": 4, "machine": machine, "times": times, "curves": curves,
    }
    with open(os.path.join(here, f"{name}.profile.json"), "w") as f:
        json.dump(document, f, indent=1)
        f.write("\n")
