#!/usr/bin/env python3
"""Writes src/data/unicode_ranges.h: unicode_ranges.py > src/data/unicode_ranges.h, then make format."""
import sys
import unicodedata


def ranges(category):
    found, begin = [], None
    for code in range(0x110001):
        inside = code < 0x110000 and unicodedata.category(chr(code))[0] == category
        if inside and begin is None:
            begin = code
        elif not inside and begin is not None:
            found.append((begin, code - 1))
            begin = None
    return found


def emit(name, category):
    sys.stdout.write(f"static const uint32_t {name}[][2] = {{\n")
    line = "   "
    for first, last in ranges(category):
        text = f" {{0x{first:X}, 0x{last:X}}},"
        if len(line + text) > 110:
            sys.stdout.write(line + "\n")
            line = "   "
        line += text
    sys.stdout.write(line + "\n};\n")


sys.stdout.write(f"""/* Letters and numbers, the general categories L* and N* of Unicode {unicodedata.unidata_version}, as ranges in their order.
 * Written by scripts/unicode_ranges.py. */
#ifndef LS_DATA_UNICODE_RANGES_H
#define LS_DATA_UNICODE_RANGES_H

#include <stdint.h>

/* clang-format off */
""")
emit("letter_ranges", "L")
emit("number_ranges", "N")
sys.stdout.write("/* clang-format on */\n\n#endif\n")
