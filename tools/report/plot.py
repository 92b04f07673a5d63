"""Plots as inline SVG whose text keeps its size at any width. Places along an axis are percentages, so that a plot
fills what it is given; only heights are pixels.

Two frames: rows (a label, a strip, a value; one row per variant) and a plane (x and y). Colours are classes (c0 .. c9,
and a verdict's name) that report.css gives a value for light and dark. Each function returns its piece of HTML.
"""
import math
import re

import text
from document import NAN, isfinite

TICKS, TICKS_MAX, ROW_MIDDLE, LOG_FROM = 5, 16, 12, 12


def escape(value):
    """Text for HTML: without control characters."""
    value = re.sub("[\0-\x1f]", "", value)
    return value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def about(value):
    """Shown by a pointer that rests on the mark."""
    return f"<title>{escape(value)}</title>"


def colour(index):
    return f"c{index % 10}"


class Axis:
    """From low to high; both NaN until something widens it. whole: no ticks between whole numbers."""

    def __init__(self, low=NAN, high=NAN, whole=False):
        self.low, self.high, self.log, self.whole = low, high, False, whole

    def widen(self, *values):
        for value in (v for v in values if abs(v) <= 1e300):
            self.low = value if not self.low <= value else self.low
            self.high = value if not self.high >= value else self.high

    def round(self, from_zero):
        """Room at the ends; logarithmic beyond a factor of LOG_FROM."""
        if not isfinite(self.low):
            self.low, self.high = 0.0, 1.0
        self.log = bool(from_zero) and self.low > 0 and self.high / self.low > LOG_FROM
        if self.log:
            self.low, self.high = self.low / 1.3, self.high * 1.3
            return
        if from_zero and self.low > 0:
            self.low = 0.0
        room = 0.04 * (self.high - self.low) or 0.5 * abs(self.high) or 1
        if not from_zero or self.low < 0:
            self.low -= room
        self.high += room

    def percent(self, value):
        """0 .. 100, clamped."""
        if self.log:
            part = math.log(value / self.low) / math.log(self.high / self.low) if value > self.low else 0.0
        else:
            part = (value - self.low) / (self.high - self.low)
        return 100 * min(1.0, max(0.0, part))

    def ticks(self):
        return self.ticks_log() if self.log else self.ticks_linear()

    def ticks_linear(self):
        raw = (self.high - self.low) / TICKS
        if not 1e-300 < raw < 1e300:
            return []
        power = 10.0 ** math.floor(math.log10(raw))
        step = next((n * power for n in (1, 2, 5) if raw <= n * power), 10 * power)
        step = max(step, 1) if self.whole else step
        first = math.ceil(self.low / step)
        return [k * step for k in range(first, first + TICKS_MAX) if k * step <= self.high]

    def ticks_log(self):
        """1, 2, 5, 10, ..; only powers of ten where those would be many."""
        powers = range(math.floor(math.log10(self.low)), math.floor(math.log10(self.high)) + 1)
        each = (1,) if self.high / self.low > 300 else (1, 2, 5)
        values = [digit * 10.0 ** power for power in powers for digit in each]
        return [value for value in values if self.low <= value <= self.high][:TICKS_MAX]

    def tick_text(self, tick):
        if abs(tick) < 1e-9 * (abs(self.high) + abs(self.low)):
            return "0"
        return text.count(tick) if 1000 <= abs(tick) < 1e7 else f"{tick:.6g}"

    def name(self, unit):
        return unit + (" (logarithmic)" if self.log else "")

    def numbers(self, y):
        """Along the bottom; where there are many, every second one only where there is room."""
        ticks = self.ticks()
        return "".join(
            f'<text{" class=" + chr(34) + "roomy" + chr(34) if len(ticks) > TICKS and i % 2 else ""} '
            f'x="{self.percent(tick):.2f}%" y="{y}" dy="16" text-anchor="middle">{self.tick_text(tick)}</text>'
            for i, tick in enumerate(ticks))


# ---- rows ----


def row(axis, label, marks, value):
    """A row's strip with the axis' grid lines and its marks, and the value as text."""
    grid = "".join(vertical("grid", axis.percent(tick)) for tick in axis.ticks())
    return (f'<div class="row"><span class="label">{escape(label)}</span><svg class="strip" role="img">{about(label)}'
            f'{grid}{"".join(marks)}</svg><span class="value">{escape(value)}</span></div>\n')


def vertical(name, x):
    return f'<line class="{name}" x1="{x:.2f}%" x2="{x:.2f}%" y1="0" y2="100%"/>'


def rows(axis, unit, lines):
    """Rows above the axis' numbers and what they are ("step time, us")."""
    return (f'<div class="rows">\n{"".join(lines)}<div class="row axis"><span class="label"></span>'
            f'<svg class="strip" role="img">{about(unit)}{axis.numbers(0)}<text class="unit" x="50%" y="34" '
            f'text-anchor="middle">{axis.name(unit)}</text></svg><span class="value"></span></div>\n</div>\n')


def whisker(axis, low, high, name, y):
    """An interval; beyond the scale it has no end."""
    if math.isnan(low) or math.isnan(high):
        return ""
    lines = [(axis.percent(low), axis.percent(high), y, y)]
    lines += [(axis.percent(end), axis.percent(end), y - 4, y + 4)
              for end, inside in ((low, low >= axis.low), (high, high <= axis.high)) if inside]
    return "".join(f'<line class="whisker {name}" x1="{x1:.2f}%" x2="{x2:.2f}%" y1="{y1}" y2="{y2}"/>'
                   for x1, x2, y1, y2 in lines)


def point(axis, value, low, high, name, title):
    if not isfinite(value):
        return ""
    return (whisker(axis, low, high, name, ROW_MIDDLE) + f'<circle class="{name}" cx="{axis.percent(value):.2f}%" '
            f'cy="{ROW_MIDDLE}" r="5">{about(title)}</circle>')


def diamond(axis, value, low, high, title):
    y = ROW_MIDDLE + 12
    if not isfinite(value):
        return ""
    return (whisker(axis, low, high, "hollow", y) + f'<svg class="at" x="{axis.percent(value):.2f}%" y="{y}" width="1" '
            f'height="1"><path class="hollow" d="M0 -5l5 5l-5 5l-5 -5z">{about(title)}</path></svg>')


def bar(axis, start, end, name, title):
    x, width = axis.percent(start), axis.percent(end) - axis.percent(start)
    if not width > 0:
        return ""
    return (f'<rect class="{name}" x="{x:.3f}%" y="{ROW_MIDDLE - 9}" width="{width:.3f}%" height="18">'
            f'{about(title)}</rect>')


# ---- plane ----


def plane(x, y, x_name, y_name, marks):
    lines = ""
    for tick in y.ticks():
        at = 100 - y.percent(tick)
        lines += (f'<line class="grid" x1="0" x2="100%" y1="{at:.2f}%" y2="{at:.2f}%"/><text x="-8" y="{at:.2f}%" '
                  f'dy="4" text-anchor="end">{y.tick_text(tick)}</text>')
    return (f'<p class="axis">{escape(y.name(y_name))}</p>\n<svg class="plane" role="img">{about(y_name)}{lines}'
            f'{x.numbers("100%")}<text class="unit" x="50%" y="100%" dy="34" text-anchor="middle">{x_name}</text>\n'
            f'{"".join(marks)}</svg>\n')


def dot(x, y, at, value, name, ringed, title):
    if not isfinite(value):
        return ""
    place = f'cx="{x.percent(at):.2f}%" cy="{100 - y.percent(value):.2f}%"'
    ring = f'<circle class="ring" {place} r="7"/>' if ringed else ""
    return f'{ring}<circle class="{name}" {place} r="3.5">{about(title)}</circle>\n'


def line(x, y, points, name):
    shown = " ".join(f"{x.percent(at):.2f},{100 - y.percent(value):.2f}" for at, value in points if isfinite(value))
    return (f'<svg class="at" width="100%" height="100%" viewBox="0 0 100 100" preserveAspectRatio="none">'
            f'<polyline class="line {name}" points="{shown}"/></svg>\n')


# ---- legend ----

KEYS = {
    "point": '<line class="whisker {0}" x1="1" x2="23" y1="8" y2="8"/><circle class="{0}" cx="12" cy="8" r="5"/>',
    "dot": '<circle class="{0}" cx="12" cy="8" r="4"/>',
    "diamond": '<line class="whisker {0}" x1="1" x2="23" y1="8" y2="8"/><path class="{0}" d="M12 3l5 5l-5 5l-5 -5z"/>',
    "bar": '<rect class="{0}" x="5" y="1" width="14" height="14"/>',
    "ring": '<circle class="ring {0}" cx="12" cy="8" r="6.5"/><circle class="{0}" cx="12" cy="8" r="3"/>',
    "line": '<line class="line {0}" x1="1" x2="23" y1="8" y2="8"/>',
    "dash": '<line class="{0}" x1="1" x2="23" y1="8" y2="8"/>'}


def legend(entries):
    """One entry (key, colour, text) for each kind of mark."""
    return '<p class="legend">' + "".join(
        f'<span class="key"><svg width="24" height="16" role="img"><title>mark</title>{KEYS[key].format(name)}</svg>'
        f'{escape(label)}</span> ' for key, name, label in entries) + "</p>\n"
