#!/usr/bin/env python3
"""Writes the 2,000 handwritten digits beside this file as PNG images, a folder for each class: FOLDER/3/00017.png.
   examples/data/digits.py FOLDER"""
import gzip
import os
import struct
import sys
import zlib


def png(pixels, width, height):
    rows = b"".join(b"\0" + pixels[y * width : (y + 1) * width] for y in range(height))

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def main(folder):
    here = os.path.dirname(os.path.abspath(__file__))
    with gzip.open(os.path.join(here, "mnist-2000-images-idx3-ubyte.gz")) as file:
        images = file.read()
    with gzip.open(os.path.join(here, "mnist-2000-labels-idx1-ubyte.gz")) as file:
        labels = file.read()[8:]
    count, height, width = struct.unpack(">III", images[4:16])
    for i in range(count):
        os.makedirs(os.path.join(folder, str(labels[i])), exist_ok=True)
        at = 16 + i * width * height
        with open(os.path.join(folder, str(labels[i]), f"{i:05d}.png"), "wb") as file:
            file.write(png(images[at : at + width * height], width, height))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
