"""The study measured again: adds "study" to a document. Its variants are sorted into the study's tables, the published
figures stand beside them, and each conclusion of the definition (study.json, families.json) is judged.

A conclusion is a row: the networks that it is about, whether it is about each link or all, and how it is decided.
    figure       of every cell, a value with an interval or without (FIGURES)
    holds        what all of them have to meet: ["high", "<", 1], ["value", "within", {"medium": [58, 85]}]
    fails        one cell that meets this refutes it; where it is left out, one that does not meet `holds`
    unanimous    cells that disagree leave it undecided
    everywhere   a cell whose figure is not known leaves it undecided
    means        the figures have no intervals: fewer than MEANS_REPETITIONS decide nothing
    shown        the figures that decided: {low} and {high} of all values, {met}, {refuted} and {unsure} cells
or, for what compares cells, `decide`: the name of a function below. Statements about speed hold or fall by 95 %
intervals, never by means alone. The tests are per cell and not corrected for their number."""
import operator

import text
from document import NAN, at, divide, isfinite, least, number, objects, speedup, traced, word

HOLDS, FAILS, OPEN = "holds", "does not hold", "not decided"
MEANS_REPETITIONS = 3
COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
           "within": lambda value, limits: limits[0] <= value <= limits[1]}


class Cell:
    """One batch of one network as measured here: variants of one device and of two."""

    def __init__(self, network, one, two):
        self.network, self.one, self.two = network, one, two
        self.batch = number(two, "global_batch")
        self.speedup, self.low, self.high = speedup(two)
        self.link = word(two, "peer_access") or None
        self.without = {}  # of a cell with peer access: the variant of two devices without
        self.published = next((row for row in network.get("rows", ()) if row["batch"] == self.batch), None)

    def winner(self):
        """Who is shown to be faster."""
        if not isfinite(self.speedup):
            return "not measured"
        return "slower" if self.high < 1 else "faster" if self.low > 1 else "not told apart"

    def ratio(self):
        return text.ratio(self.speedup, self.low, self.high)


def cells_of(document, networks):
    """Links in the order of the document, and cells by network, link and batch. A second variant of a cell (another
    strategy) is not the study's."""
    variants, links, found = objects(document, "variants"), [], {}
    presets = [network["preset"] for network in networks]
    for two in variants:
        if word(two, "model") not in presets or number(two, "ranks") != 2 or \
           word(two, "precision") != word(variants[0], "precision"):
            continue
        one = next((v for v in variants if number(v, "ranks") == 1 and
                    all(at(v, key) == at(two, key) for key in ("model", "precision", "global_batch"))), {})
        index = presets.index(word(two, "model"))
        cell = Cell(networks[index], one, two)
        if cell.link not in links:
            links.append(cell.link)
        found.setdefault((index, links.index(cell.link), cell.batch), cell)
    for (index, link, batch), cell in found.items():
        if cell.link == "on" and "off" in links:
            other = found.get((index, links.index("off"), batch))
            cell.without = other.two if other else {}
    return links, [found[key] for key in sorted(found)]


# ---- figures of a cell: (value, low, high), or a value alone ----


def part(variant, *names):
    """us of parts of a step. Traced steps are slower than the captured ones that step times are of: their parts are
    scaled to these, so that both can stand in one sentence."""
    scale = 1.0
    if traced(variant):
        scale = divide(number(variant, "step_time_us.mean"), number(variant, "traced.step_time_us"))
    return scale * sum(number(variant, f"step_parts_us.{name}") for name in names)


def spared(c):
    """us that two devices would win over one without exposed communication; of cells where they are slower."""
    lost = number(c.two, "step_time_us.mean") - number(c.one, "step_time_us.mean")
    return part(c.two, "exposed_comm") - lost if c.winner() == "slower" else NAN


def without_link(c):
    """Step time without peer access over step time with it."""
    on, off = ([number(v, f"step_time_us.{key}") for key in ("mean", "low", "high")] for v in (c.two, c.without))
    return divide(off[0], on[0]), divide(off[1], on[2]), divide(off[2], on[1])


FIGURES = {
    "ratio": lambda c: c.speedup,
    "speed-up": lambda c: (c.speedup, c.low, c.high),
    "efficiency": lambda c: (50 * c.speedup, 50 * c.low, 50 * c.high),
    "exposed ms": lambda c: 1e-3 * part(c.two, "exposed_comm"),
    "exposed over computing": lambda c: divide(part(c.two, "exposed_comm"),
                                               part(c.two, "forward", "backward", "optimizer")),
    "computing, % of one": lambda c: 100 * divide(part(c.two, "forward", "backward"),
                                                  part(c.one, "forward", "backward")),
    "optimizer, % of one": lambda c: 100 * divide(part(c.two, "optimizer"), part(c.one, "optimizer")),
    "spared us": spared,
    "memory, MiB more": lambda c: (number(c.two, "gpu.memory_used_bytes") -
                                   number(c.one, "gpu.memory_used_bytes")) / 2**20,
    "without link": without_link,
    "% that a link removes": lambda c: 100 - 100 * divide(part(c.two, "exposed_comm"), part(c.without, "exposed_comm"))}


# ---- decisions: of a row and the cells that it is about -> verdict, the figures that decided ----


def decided(holds, fails):
    return HOLDS if holds else FAILS if fails else OPEN


def by_network(row, cells, tell):
    return "; ".join(f"{name}: {tell([c for c in cells if c.network['name'] == name])}" for name in row["networks"])


def sides(row, cells):
    def tell(own):
        told = [(side, [f"{c.batch:.0f}" for c in own if c.winner() == side])
                for side in ("slower", "faster", "not told apart", "not measured")]
        return "; ".join(f"{side} at {', '.join(batches)}" for side, batches in told if batches) or "not measured"

    return by_network(row, cells, tell)


def meets(figure, test, network):
    which, compare, limit = test
    limit = limit[network["name"]] if isinstance(limit, dict) else limit
    return COMPARE[compare](figure[("value", "low", "high").index(which)], limit)


def by_figure(row, cells):
    known = []
    for c in cells:
        figure = FIGURES[row["figure"]](c)
        figure = figure if isinstance(figure, tuple) else (figure, figure, figure)
        if isfinite(figure[0]):
            known.append((c, figure))
    met = [c for c, figure in known if meets(figure, row["holds"], c.network)]
    if "fails" in row:
        refuted = [c for c, figure in known if meets(figure, row["fails"], c.network)]
    else:
        refuted = [] if met and row.get("unanimous") else [c for c, _ in known if c not in met]
    complete = len(known) == len(cells) or not row.get("everywhere")

    def tell(own):
        values = [figure[0] for c, figure in known if c in own]
        counts = {"known": len(known), "met": len(met), "refuted": len(refuted),
                  "unsure": len(known) - len(met) - len(refuted)}
        return row["shown"].format(low=min(values), high=max(values), **counts) if values else "not known"

    if row["shown"] == "sides":
        shown = sides(row, cells)
    elif not known:
        shown = row.get("absent", "")
    else:
        shown = by_network(row, cells, tell) if row.get("by_network") else tell(cells)
    return decided(known and len(met) == len(known) and complete, refuted), shown


def speedup_by_batch(row, cells):
    known = [c for c in cells if isfinite(c.speedup)]
    if len(known) < 2:
        return OPEN, ""
    first, last = known[0], known[-1]
    falls, rises = last.high < first.low, last.low > first.high
    verdict = decided(falls, rises) if row["direction"] == "falls" else decided(rises, falls)
    return verdict, f"{first.ratio()} at {first.batch:.0f}, {last.ratio()} at {last.batch:.0f}"


def best_batch(row, cells):
    known = [c for c in cells if isfinite(c.speedup)]
    own = next((c for c in known if c.batch == row["batch"]), None)
    if not own:
        return OPEN, ""
    best = max(known, key=lambda c: c.speedup)
    apart = all(c.high < own.low for c in known if c is not own)
    return (decided(apart, any(c.low > own.high for c in known)),
            f"best: {text.ratio(best.speedup)} at {best.batch:.0f}; at {own.batch:.0f}: {own.ratio()}")


def pays_only_above(row, cells):
    paying = [c.batch for c in cells if c.winner() == "faster"]
    early = any(batch <= row["batch"] for batch in paying)
    return decided(paying and not early, early), sides(row, cells)


def pays_from(row, cells):
    """The smallest batch from which on two devices are faster. The study names one; 1: any; none: it says never."""
    known = [c for c in cells if isfinite(c.speedup)]
    if not known:
        return OPEN, ""
    expected, first = row.get("batch"), None
    for c in reversed(known):
        if c.winner() != "faster":
            break
        first = c
    paying, losing = ([c for c in known if c.winner() == who] for who in ("faster", "slower"))
    last = known[-1]
    shown = f"pays from batch {first.batch:.0f} on ({first.ratio()})" if first else f"pays at no batch up to {last.batch:.0f} ({last.ratio()})"
    below = [c for c in known if first and c.batch < first.batch]
    if below:
        shown += f"; {below[-1].ratio()} at {below[-1].batch:.0f}"
    if expected is None:
        return decided(len(losing) == len(known), paying), shown
    if expected == 1:
        return decided(paying, len(losing) == len(known)), shown
    above = [c for c in known if c.batch >= expected]
    return (decided(above and all(c in paying for c in above) and not any(c.batch < expected for c in paying),
                    any(c in losing for c in above) or any(c.batch < expected for c in paying)), shown)


def best_efficiency(row, cells):
    known = [c for c in cells if isfinite(c.speedup)]
    if not known:
        return OPEN, ""
    best = max(known, key=lambda c: c.speedup)
    low, high = row["within"]
    bounds = f" ({50 * best.low:.0f} to {50 * best.high:.0f})" if isfinite(best.low) else ""
    ended = known[-1].batch >= best.network.get("searched_to", 0)  # else a larger batch may do better
    return (decided(ended and low <= 50 * best.low and 50 * best.high <= high,
                    (ended and 50 * best.high < low) or 50 * best.low > high),
            f"{50 * best.speedup:.0f} %{bounds} at batch {best.batch:.0f}")


def one_winner_per_network(row, cells):
    def tell(own):
        found = [c.winner() for c in own]
        slower, faster = found.count("slower"), found.count("faster")
        return f"slower in {slower}, faster in {faster}, neither shown in {len(found) - slower - faster}"

    found = [{c.winner() for c in cells if c.network["name"] == name} for name in row["networks"]]
    return (decided(all(sides in ({"slower"}, {"faster"}) for sides in found),
                    any({"slower", "faster"} <= sides for sides in found)), by_network(row, cells, tell))


def efficiency_of_last(row, cells):
    """At the largest batch with peer access."""
    last = next((c for c in reversed(cells) if c.link == "on"), None)
    if not last or not isfinite(last.speedup):
        return OPEN, row["absent"]
    bounds = f" ({50 * last.low:.0f} to {50 * last.high:.0f})" if isfinite(last.low) else ""
    return (decided(50 * last.low >= row["percent"], 50 * last.high < row["percent"]),
            f"efficiency {50 * last.speedup:.0f} %{bounds} at batch {last.batch:.0f}")


DECIDE = {decide.__name__: decide for decide in (speedup_by_batch, best_batch, pays_only_above, pays_from, best_efficiency,
                                                 one_winner_per_network, efficiency_of_last)}


def finding(row, cells, link):
    verdict, figures = DECIDE.get(row.get("decide"), by_figure)(row, cells)
    fewest = least(number(v, "step_time_us.count") for c in cells for v in (c.one, c.two))
    if row.get("means") and verdict != OPEN and fewest < MEANS_REPETITIONS:
        verdict, figures = OPEN, f"{figures}; only {fewest:.0f} repetition{text.plural(fewest)}"
    return {"peer_access": link, "verdict": verdict, "figures": figures or "not measured"}


def conclusion(row, links, cells):
    own, across = [c for c in cells if c.network["name"] in row["networks"]], row.get("all_links", False)
    findings = [finding(row, own, None)] if across else [
        finding(row, [c for c in own if c.link == link], link) for link in links]
    return {**{key: row[key] for key in ("id", "statement", "test")}, "all_links": across, "findings": findings}


# ---- tables ----


def or_null(value):
    return value if isfinite(value) else None


def side(v):
    """What the tables show of one variant; its reason when it could not be measured."""
    if not v:
        return None
    if "failed" in v:
        return {"failed": v["failed"]}
    libraries = number(v, "bytes_per_device.libraries")
    rate = {"samples_per_s": v["samples_per_s"]} if "samples_per_s" in v else {}
    return {**rate, **{name: or_null(value) for name, value in (
        ("step_time_ms", 1e-3 * number(v, "step_time_us.mean")),
        ("step_time_low_ms", 1e-3 * number(v, "step_time_us.low")),
        ("step_time_high_ms", 1e-3 * number(v, "step_time_us.high")),
        ("planned_bytes", number(v, "bytes_per_device.total") - (libraries if isfinite(libraries) else 0)),  # exact
        ("used_bytes", number(v, "gpu.memory_used_bytes")),
        ("peak_flops_percent", number(v, "utilisation.peak_flops_percent")),
        ("gpu_busy_percent", number(v, "gpu.busy_percent")),
        ("exposed_comm_percent",
         100 * divide(number(v, "step_parts_us.exposed_comm"), number(v, "step_parts_total_us"))))}}


def table_row(c):
    values = {"value": c.speedup, "low": c.low, "high": c.high}
    return {"batch": c.batch, "one": side(c.one), "two": side(c.two),
            "speedup": {name: or_null(value) for name, value in values.items()},
            "efficiency_percent": {name: or_null(50 * value) for name, value in values.items()},
            "published": c.published and {name: float(value) for name, value in c.published.items() if name != "batch"}}


def step_parts(v):
    """ms of each part, as the study's timelines have them: what it calls overhead is the rest."""
    if not isfinite(number(v, "step_parts_us.forward")):
        return None
    parts = {name: number(v, f"step_parts_us.{name}") for name in ("forward", "backward", "exposed_comm", "optimizer")}
    parts["rest"] = number(v, "step_parts_us.rest") + number(v, "step_parts_us.input")
    parts["total"] = number(v, "step_parts_total_us")
    return {**{name: or_null(1e-3 * us) for name, us in parts.items()}, "source": v.get("step_parts_source")}


def measure(document, definition):
    for network in definition["networks"]:
        network["searched_to"] = max((number(c, "searched_to") for c in objects(document, "crossovers")
                                      if word(c, "model") == network["preset"]), default=0)
    links, cells = cells_of(document, definition["networks"])
    tables, timelines = [], []
    for network in definition["networks"]:
        published = network.get("timeline", {})
        for link in links:
            own = [c for c in cells if c.network is network and c.link == link]
            if own:
                tables.append({"model": network["preset"], "label": network["label"], "peer_access": link,
                               "rows": list(map(table_row, own))})
            timelines += [{"model": network["preset"], "peer_access": link, "batch": c.batch, "one": step_parts(c.one),
                           "two": step_parts(c.two), "published": {"one": published["one"], "two": published["two"]}}
                          for c in own if c.batch == published.get("batch")]
    return {"source": definition["source"], "hardware": definition["hardware"], "tables": tables,
            "timelines": timelines, "conclusions": [conclusion(row, links, cells) for row in definition["conclusions"]]}
