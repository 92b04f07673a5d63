#!/usr/bin/python3
"""Random parts of pictures, and their scaling, here and in torchvision (RandomResizedCrop).

    bench/pictures_vs_torchvision.py --bench build/dev/src/tests/data/bench_pictures [--boxes 100000]

Boxes: area, ratio and place of each side's boxes as two samples; the largest distance between their distribution functions
(Kolmogorov, Smirnov), and where chance exceeds it once in 1,000 such comparisons. Pixels: the same box scaled by both, in units of
1/255: Pillow's image, whose bytes must be the same, and torchvision's tensor of floats with antialias.
Ends with 1 if a distance is above the limit for all comparisons together, or a byte differs from Pillow's.
"""
import argparse
import math
import subprocess
import sys

import numpy as np
import torch
import torchvision.transforms as T
import torchvision.transforms.functional as F
from PIL import Image

SIZES = [(224, 224), (32, 32), (375, 500), (64, 640), (640, 64), (1, 100), (100, 1), (3, 5)]
LEASTS = [0.08, 0.5]
RATIO = (3 / 4, 4 / 3)


def ours(bench, height, width, least, count):
    out = subprocess.run([bench, "boxes", str(height), str(width), str(least), str(count)], capture_output=True, check=True)
    return np.array(out.stdout.split(), dtype=np.int64).reshape(count, 4)


def theirs(height, width, least, count):
    picture = torch.empty(1, height, width)
    return np.array([T.RandomResizedCrop.get_params(picture, [least, 1.0], list(RATIO)) for _ in range(count)])


def figures(boxes, height, width):
    top, left, h, w = boxes.T
    place = lambda at, free: np.where(free > 0, at / np.maximum(free, 1), 0)
    return {"area": h * w / (height * width), "ratio": np.log(w / h), "top": place(top, height - h), "left": place(left, width - w)}


def distance(a, b):
    both = np.concatenate([a, b])
    both.sort()
    cdf = lambda x: np.searchsorted(np.sort(x), both, side="right") / len(x)
    return np.abs(cdf(a) - cdf(b)).max()


def compare_boxes(args):
    limit = lambda p: math.sqrt(-math.log(p / 2) / args.boxes)  # two samples of this size, probability p
    worst, cases = 0, len(SIZES) * len(LEASTS) * 4
    print(f"boxes: {args.boxes:,} of each; chance exceeds {limit(1e-3):.4f} once in 1,000 comparisons, {limit(1e-3 / cases):.4f} once in "
          f"1,000 runs of these {cases}")
    for height, width in SIZES:
        for least in LEASTS:
            a = figures(ours(args.bench, height, width, least, args.boxes), height, width)
            b = figures(theirs(height, width, least, args.boxes), height, width)
            far = {k: distance(a[k], b[k]) for k in a}
            worst = max(worst, *far.values())
            q = lambda x: " ".join(f"{v:.3f}" for v in np.quantile(x, [0.05, 0.5, 0.95]))
            print(f"  {height} x {width}, from {least}: " + ", ".join(f"{k} {v:.4f}" for k, v in far.items()) +
                  f"; area 5 %, 50 %, 95 %: {q(a['area'])} here, {q(b['area'])} there")
    print(f"  largest distance: {worst:.4f}")
    return worst <= limit(1e-3 / cases)


def compare_pixels(args):
    rng, good, seen = np.random.default_rng(1), True, {}
    for case in range(args.pictures):
        channels, bicubic = (1, 3)[case % 2], case // 2 % 2
        height, width = (int(v) for v in rng.integers(1, 300, 2))
        h, w = int(rng.integers(1, height + 1)), int(rng.integers(1, width + 1))
        top, left = int(rng.integers(0, height - h + 1)), int(rng.integers(0, width - w + 1))
        to_h, to_w = (int(v) for v in rng.integers(1, 257, 2))
        pixels = rng.integers(0, 256, (height, width, channels), dtype=np.uint8)
        if case % 3:  # smooth, like a photograph
            y, x = np.mgrid[0:height, 0:width] / 40
            pixels = (127 + 127 * np.stack([np.sin(x * (c + 1) + y) for c in range(channels)], -1)).astype(np.uint8)
        numbers = [channels, height, width, top, left, h, w, to_h, to_w, bicubic]
        out = subprocess.run([args.bench, "scale", *map(str, numbers)], input=pixels.tobytes(), capture_output=True, check=True).stdout
        here = np.frombuffer(out, np.uint8).reshape(to_h, to_w, channels).astype(int)
        mode = (T.InterpolationMode.BILINEAR, T.InterpolationMode.BICUBIC)[bicubic]
        picture = Image.fromarray(pixels if channels == 3 else pixels[:, :, 0])
        pillow = np.asarray(F.resized_crop(picture, top, left, h, w, [to_h, to_w], mode)).reshape(here.shape).astype(int)
        part = torch.from_numpy(pixels).permute(2, 0, 1)[:, top:top + h, left:left + w].float()
        tensor = F.resize(part, [to_h, to_w], mode, antialias=True).permute(1, 2, 0).clamp(0, 255).numpy()
        kind = (("bilinear", "bicubic")[bicubic], "enlarged" if to_h >= h and to_w >= w else "reduced" if to_h <= h and to_w <= w else "mixed")
        s = seen.setdefault(kind, [0, 0, 0, 0.0, 0.0])
        s[0] += 1
        s[1] += here.size
        s[2] = max(s[2], int(np.abs(here - pillow).max()))
        s[3] = max(s[3], float(np.abs(here - tensor).max()))
        s[4] += float(np.abs(here - tensor).sum())
    print(f"pixels: {args.pictures} pictures, in units of 1/255")
    for kind, (pictures, count, image, tensor, total) in sorted(seen.items()):
        good = good and image == 0
        print(f"  {' '.join(kind)}: {pictures} pictures, {count:,} bytes; from Pillow at most {image}; from the tensor at most {tensor:.2f}, "
              f"mean {total / count:.3f}")
    return good


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--boxes", type=int, default=100000)
    parser.add_argument("--pictures", type=int, default=600)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    same = compare_pixels(options)
    sys.exit(0 if compare_boxes(options) and same else 1)
