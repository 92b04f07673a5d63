"""The study's part of the report: its tables with a row of ours and a row of its own figures for each batch, its
timelines, and its conclusions with their verdicts. Reads only "study" of the document."""
import text
from document import at, isfinite, number, objects, word


def link_of(value):
    peer = word(value, "peer_access")
    return f", peer access {peer}" if peer else ""


def interval(value, path, middle, unit=""):
    """12 (11 to 13); the interval only where it is known."""
    v, low, high = (number(value, f"{path}.{key}") for key in (middle, "low", "high"))
    if not isfinite(v) or not isfinite(low):
        return text.count(v) + (unit if isfinite(v) else "")
    bounds = f"{text.count(low)} to {text.count(high)}" if isfinite(high) else f"above {text.count(low)}"
    return f"{text.count(v)}{unit} ({bounds})"


def given(value):
    """With the digits that it was given: the study's figures are round."""
    return f"{value:.4g}" if isfinite(value) else ""


def pair(one, two, unit=""):
    """1.2 → 2.3: on one device and on two."""
    if not isfinite(one) and not isfinite(two):
        return ""
    return " → ".join(given(value) + unit if isfinite(value) else "?" for value in (one, two))


def memory_of(side):
    used = number(side, "used_bytes")
    return 1e-9 * (used if isfinite(used) else number(side, "planned_bytes"))


def rate(side):
    failed = at(side, "failed")
    return interval(side, "samples_per_s", "mean") if failed is None else f"not measured: {word(side, 'failed')}"


COLUMNS = [("batch", "h"), ("measured", "t"), ("speed-up", "n"), ("one device, samples/s", "n"),
           ("two devices, samples/s", "n"), ("efficiency", "n"), ("step, ms (one → two)", "n"),
           ("exposed communication of step, two", "n"), ("memory per device, GB (one → two)", "n"),
           ("of peak FLOP/s (one → two)", "n"), ("device busy (one → two)", "n")]


def own_row(row):
    one, two = at(row, "one"), at(row, "two")
    low, high = number(row, "speedup.low"), number(row, "speedup.high")
    return [f"{number(row, 'batch'):.0f}", "here", text.ratio(number(row, "speedup.value"), low, high),
            rate(one), rate(two), interval(row, "efficiency_percent", "value", " %"),
            pair(number(one, "step_time_ms"), number(two, "step_time_ms")),
            text.percent(number(two, "exposed_comm_percent")), pair(memory_of(one), memory_of(two)),
            pair(number(one, "peak_flops_percent"), number(two, "peak_flops_percent"), " %"),
            pair(number(one, "gpu_busy_percent"), number(two, "gpu_busy_percent"), " %")]


def published_row(row):
    p = at(row, "published")
    rates = [f"{text.count(number(p, name))} ± {text.count(number(p, name + '_margin'))}"
             for name in ("one_samples_per_s", "two_samples_per_s")]
    return [f"{number(row, 'batch'):.0f}", "the study", text.ratio(number(p, "speedup")), *rates,
            text.percent(number(p, "efficiency_percent")),
            pair(number(p, "one_step_time_ms"), number(p, "two_step_time_ms")),
            "", given(number(p, "memory_gb")), "",
            pair(number(p, "one_utilisation_percent"), number(p, "two_utilisation_percent"), " %")]


def timeline(t):
    names = ("forward", "backward", "exposed_comm", "optimizer", "rest", "total")
    earlier = {"exposed_comm": "communication"}  # in documents of earlier versions
    for who, path in (("one device", "one"), ("the study, one device", "published.one"), ("two devices", "two"),
                      ("the study, two devices", "published.two")):
        parts = at(t, path)
        if isinstance(parts, dict):
            keys = [name if name in parts else earlier.get(name, name) for name in names]
            yield [who + (" (traced run)" if word(parts, "source") == "traced" else ""),
                   *(given(number(parts, key)) for key in keys)]


def finding_link(conclusion, finding):
    peer = word(finding, "peer_access")
    return f"peer access {peer}" if peer else "both" if at(conclusion, "all_links") is True else ""


def study(r, document):
    own = at(document, "study")
    if own is None:
        return
    r.heading(2, "The study's tables")
    r.text("Rows of the study are what it published for its own hardware and software, not a measurement of this "
           f"machine: {word(own, 'source')} ({word(own, 'hardware')}). Ours are measured; in brackets the 95 % interval. "
           "Memory is what the device had in use where that can be read, else the plan's bytes. Peak is this machine's fastest "
           "measured matrix product (`lockstep probe`).")
    answers = [[word(a, "model"), word(a, "text").split(": ", 1)[-1]] for a in objects(document, "crossovers")]
    if answers:
        r.heading(2, "From which batch on more devices pay")
        r.rows([("network", "h"), ("answer", "t")], answers)
    for table in objects(own, "tables"):
        r.heading(3, f"The {word(table, 'label')}{link_of(table)}")
        r.rows(COLUMNS, [cells for row in objects(table, "rows") for cells in
                         [own_row(row)] + ([published_row(row)] if isinstance(at(row, "published"), dict) else [])])
    for t in objects(own, "timelines"):
        r.heading(3, f"Parts of a step: {word(t, 'model')}, batch {number(t, 'batch'):.0f}{link_of(t)}")
        r.rows([("ms", "h")] + [(name, "n") for name in ("forward", "backward", "communication (exposed)", "optimizer",
                                                         "rest", "total")], list(timeline(t)))
    r.heading(2, "Where the study's conclusions hold")
    r.text("On this machine, with these networks and this program. Each is put to a test with the numbers above; "
           "intervals are at 95 % and not corrected for the number of cells. A speed-up's interval is the wider of the "
           "bootstrap's and Welch's.")
    r.rows([("verdict", "v"), ("the study concludes", "h"), ("tested by", "t"), ("link", "t"), ("figures", "t")],
           [[word(f, "verdict"), word(c, "statement"), word(c, "test"), finding_link(c, f), word(f, "figures")]
            for c in objects(own, "conclusions") for f in objects(c, "findings")])
