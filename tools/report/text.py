"""Numbers as people read them: few digits, separated thousands, units. What is not known (NaN) is the empty text."""
import math

from document import isfinite


def decimals(value, digits):
    """How many decimals show `digits` significant digits of `value`."""
    return max(0, digits - 1 - math.floor(math.log10(abs(value)))) if isfinite(value) and value else 0


def count(value, places=0):
    """12,214.50"""
    return f"{value:,.{places}f}" if isfinite(value) and abs(value) < 1e18 else ""


def digits(value):
    """Three significant digits, whole numbers whole: 0.123, 12.3, 12,214."""
    if not isfinite(value) or value == 0 or 1e-3 <= abs(value) < 1e7:
        return count(value, decimals(value, 3))
    return f"{value:.3g}"


def size(value):
    """Bytes in decimal units: 6.1 MB."""
    if not isfinite(value):
        return ""
    units = ["B", "kB", "MB", "GB", "TB"]
    unit = 0
    while abs(value) >= 999.5 and unit + 1 < len(units):
        value, unit = value / 1000, unit + 1
    return f"{value:.{1 if unit and abs(value) < 99.95 else 0}f} {units[unit]}"


def p_value(p):
    if not isfinite(p):
        return ""
    return "< 0.001" if p < 0.001 else f"{p:.{3 if p < 0.0995 else 2}f}"


def correlation(r):
    if not isfinite(r):
        return ""
    return "> 0.9999" if r > 0.9999 else f"{r:.4f}"


def percent(value, places=0, sign=False):
    if not isfinite(value):
        return ""
    return f"{'+' if sign and value >= 0 else ''}{count(value, places)} %"


def ratio(value, low=math.nan, high=math.nan):
    """1.41x (1.28 to 1.56); without a known interval 1.41x, with an open one 1.41x (above 1.28)."""
    places = 3 if abs(value) < 0.0995 else 2
    if not isfinite(value):
        return ""
    if not isfinite(low):
        return f"{value:.{places}f}x"
    end = f"{low:.{places}f} to {high:.{places}f}" if isfinite(high) else f"above {low:.{places}f}"
    return f"{value:.{places}f}x ({end})"


def within(value, low, high):
    """With the two digits that half the interval from low to high has: 320.9, 12,200."""
    half = (high - low) / 2
    if not isfinite(value) or not isfinite(half) or half <= 0:
        return digits(value)
    last = 10.0 ** (math.floor(math.log10(half)) - 1)  # of the digits that mean something
    if last > 1:
        value = math.copysign(math.floor(abs(value) / last + 0.5), value) * last
    return count(value, min(3, decimals(half, 2)))


def span(value, low, high):
    """320.9 (317.7 to 324.1)"""
    if not all(map(isfinite, (value, low, high))):
        return digits(value)
    return f"{within(value, low, high)} ({within(low, low, high)} to {within(high, low, high)})"


def around(value, low, high):
    """320.9 ± 3.2"""
    half = (high - low) / 2
    if not isfinite(value) or not isfinite(half) or half <= 0:
        return digits(value)
    return f"{within(value, -half, half)} ± {within(half, -half, half)}"


def unit(us):
    """The unit of times of which the smallest is `us`: its name, and how many us it has."""
    return ("s", 1e6) if us >= 1e6 else ("ms", 1e3) if us >= 1e3 else ("us", 1.0)


def time(us):
    """320.9 us, 1.24 s"""
    name, per = unit(us)
    return f"{digits(us / per)} {name}" if isfinite(us) else ""


def listed(items):
    """a, b and c"""
    return " and ".join(filter(None, [", ".join(items[:-1]), *items[-1:]]))


def plural(value):
    return "" if value == 1 else "s"
