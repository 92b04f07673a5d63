"""Reading a document: what is not there, or has another type, is NaN, "" or empty. Nothing here raises."""
import json
import math
import os

NAN = math.nan
isfinite = math.isfinite


def shipped(name):
    """The text of a file beside this one."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), name), encoding="utf-8") as file:
        return file.read()


def definition(name="study"):
    """A study: its tables, its conclusions; the first one's rules."""
    return json.loads(shipped(name + ".json"))


def at(value, path):
    """The member at "a.b", or None."""
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def as_number(value):
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return NAN
    try:
        return float(value)
    except OverflowError:
        return NAN


def number(value, path):
    return as_number(at(value, path))


def word(value, path):
    found = at(value, path)
    return found if isinstance(found, str) else ""


def objects(value, path):
    """The objects of the array at `path`; an element of another type counts as an empty object."""
    found = at(value, path)
    return [item if isinstance(item, dict) else {} for item in found] if isinstance(found, list) else []


def members(value, path):
    """(name, number) of the object at `path`, in its order."""
    found = at(value, path)
    return [(name, as_number(found[name])) for name in found] if isinstance(found, dict) else []


def divide(a, b):
    """a / b as floating point means it: no exception for 0."""
    return a / b if b else NAN


def least(values):
    return min((v for v in values if not math.isnan(v)), default=NAN)


def most(values):
    return max((v for v in values if not math.isnan(v)), default=NAN)


def speedup(variant):
    """(value, low, high) of a variant's speed-up; high is infinite where the interval has no upper end."""
    low, high = number(variant, "scaling.interval_low"), number(variant, "scaling.interval_high")
    return number(variant, "scaling.speedup"), low, math.inf if isfinite(low) and math.isnan(high) else high


def traced(variant):
    return word(variant, "step_parts_source") == "traced"


def same_batch(a, b):
    """Variants that are drawn to one scale: of the same batch and network."""
    return at(a, "key") == at(b, "key") and word(a, "model") == word(b, "model")
