"""The report's charts. Each function returns HTML, or "" where there is nothing to see that the numbers do not say."""
import plot
import text
from document import NAN, as_number, at, isfinite, least, members, most, number, objects, same_batch, speedup, word

VERDICTS = ["undecided", "faster", "slower", "equivalent"]
STEP_KINDS = ["forward", "backward", "optimizer", "exposed_comm", "input", "communication", "rest"]
TIMELINES_MAX, PANELS_MAX, CURVE_POINTS = 8, 6, 400
OF_BATCH = "% of the longest step of the same batch"


def unit_of(variants):
    """All step times of a table or chart have one unit, which suits the smallest."""
    us = least(number(v, "step_time_us.mean") for v in variants)
    return text.unit(us if isfinite(us) else 1)


# ---- rows ----


def step_time(variants):
    name, us = unit_of(variants)
    spans = []
    for v in variants:
        own = [number(v, f"step_time_us.{key}") / us for key in ("mean", "low", "high")]
        plan = [number(v, f"predicted_step_time_us.{key}") / us for key in ("predicted", "low", "high")]
        spans.append((v, own, plan))
    shortest = least(own[0] for _, own, _ in spans)
    if sum(isfinite(own[0]) for _, own, _ in spans) < 2:
        return ""
    axis = plot.Axis()
    axis.widen(*(end for _, own, plan in spans for end in own + plan if end > 0.05 * shortest))
    axis.round(True)
    lines = []
    for v, own, plan in spans:
        if isfinite(own[0]):
            value = f"{text.around(*own)} {name}"
            marks = [plot.point(axis, *own, "c0", value),
                     plot.diamond(axis, *plan, f"predicted {text.span(*plan)} {name}")]
            lines.append(plot.row(axis, word(v, "name"), marks, value))
    keys = [("point", "c0", "measured: mean and its 95 % interval")]
    if any(isfinite(plan[0]) for _, _, plan in spans):
        keys.append(("diamond", "hollow", "predicted by lockstep plan, with its 90 % interval"))
    return plot.rows(axis, f"step time, {name}", lines) + plot.legend(keys)


def speed_up(variants):
    shown = [(v, *speedup(v)) for v in variants if isfinite(number(v, "scaling.speedup"))]
    if not shown:
        return ""
    axis = plot.Axis(1.0, 1.0)
    largest = most(value for _, value, _, _ in shown)
    for _, value, low, high in shown:  # an interval without an end does not stretch the axis
        axis.widen(value, low if low > 0 else NAN, high if high < 3 * largest else NAN)
    axis.round(True)
    lines, seen = [], set()
    for v, value, low, high in shown:
        verdict = word(v, "against_reference.verdict")
        verdict = verdict if verdict in VERDICTS else VERDICTS[0]
        seen.add(verdict)
        words = text.ratio(value, low, high)
        marks = [plot.vertical("one", axis.percent(1)), plot.point(axis, value, low, high, verdict, words)]
        lines.append(plot.row(axis, word(v, "name"), marks, words))
    keys = [("point", verdict, verdict) for verdict in VERDICTS if verdict in seen]
    return plot.rows(axis, "speed-up", lines) + plot.legend(keys + [("dash", "one", "the reference (1x)")])


class Kinds:
    """Names of pieces in the order of their colours; those of a step are the same in every chart."""

    def __init__(self, names=()):
        self.names, self.seen = list(names), set()

    def colour(self, name):
        if name not in self.names:
            self.names.append(name)
        self.seen.add(name)
        return plot.colour(self.names.index(name))

    def legend(self):
        return plot.legend([("bar", plot.colour(i), kind_words(name)) for i, name in enumerate(self.names)
                            if name in self.seen])


def kind_words(kind):
    return "exposed communication" if kind == "exposed_comm" else kind.replace("_", " ")


def stack(variants, member, left_out, kinds, unit, words, per=None):
    """The members of an object of each variant, one after the other: parts of a step, bytes of a device. Without
    `per` they are shares of the largest sum of the same batch, so that small steps can be seen beside large ones."""
    def pieces(v):
        return [(name, size) for name, size in members(v, member) if name != left_out and size > 0]

    def total(v):
        return sum(size for _, size in pieces(v))

    drawn = [v for v in variants if total(v) > 0]
    if not drawn:
        return ""
    axis = plot.Axis(0.0, 100.0)
    if per:
        axis.high = max(map(total, drawn)) / per
        axis.round(True)
    lines = []
    for v in drawn:
        scale = per or max(total(other) for other in drawn if same_batch(other, v)) / 100
        marks, start = [], 0.0
        for name, size in pieces(v):
            marks.append(plot.bar(axis, start / scale, (start + size) / scale, kinds.colour(name),
                                  f"{kind_words(name)}: {words(size)}"))
            start += size
        lines.append(plot.row(axis, word(v, "name"), marks, words(start)))
    return plot.rows(axis, unit, lines) + kinds.legend()


def parts(variants):
    return stack(variants, "step_parts_us", "", Kinds(STEP_KINDS), OF_BATCH, text.time)


def memory(variants):
    return stack(variants, "bytes_per_device", "total", Kinds(), "MB", text.size, 1e6)


def timeline(variants):
    """A row for each lane of a variant, in the order in which they begin."""
    def end_of(v):
        return most([0.0] + [number(task, "end_us") for task in objects(v, "timeline")])

    axis, kinds, lines = plot.Axis(0.0, 100.0), Kinds(STEP_KINDS), []
    for v in [v for v in variants if end_of(v) > 0][:TIMELINES_MAX]:
        scale = max(end_of(other) for other in variants if same_batch(other, v)) / 100
        lanes = {}
        for task in objects(v, "timeline"):
            lanes.setdefault(word(task, "lane"), []).append(task)
        for lane, tasks in lanes.items():
            marks, busy_us = [], 0.0
            for task in tasks:
                start, end, part = number(task, "start_us"), number(task, "end_us"), word(task, "part")
                marks.append(plot.bar(axis, start / scale, end / scale, kinds.colour(part),
                                      f"{kind_words(part)}: {text.time(end - start)}"))
                busy_us += end - start
            lines.append(plot.row(axis, f"{word(v, 'name')}: {lane}", marks, text.time(busy_us)))
    return plot.rows(axis, OF_BATCH, lines) + kinds.legend() if lines else ""


# ---- planes ----


def series_of(v):
    return word(v, "series") or word(v, "name")


def off_median(v, repetition):
    median = number(v, "step_time_us.median")
    return 100 * number(repetition, "step_time_us.mean") / median - 100 if median else NAN


def repetitions(variants, outlier_limit):
    """Every repetition in its round; the variants of a round stand beside each other."""
    x, y = plot.Axis(0.5, 1.0, whole=True), plot.Axis()
    shown = [(i, v, [off_median(v, r) for r in objects(v, "repetitions")]) for i, v in enumerate(variants)
             if "failed" not in v]
    for _, _, values in shown:
        x.widen(float(len(values)))
        y.widen(*values)
    if not isfinite(y.low) or x.high < 2:
        return ""  # one repetition is its own median
    x.high += 0.5
    y.round(False)
    series, marks, ringed = {}, [], False
    for i, v, values in shown:
        own = series.setdefault(series_of(v), len(series))
        flagged = at(v, "outliers")
        for k, value in enumerate(values):
            outlier = isinstance(flagged, list) and k in flagged
            ringed |= outlier
            place = k + 1 + 0.5 * ((i + 0.5) / len(variants) - 0.5)
            marks.append(plot.dot(x, y, place, value, plot.colour(own), outlier,
                                  f"{word(v, 'name')}, repetition {k + 1}: {text.percent(value, 1, True)}"))
    keys = [("dot", plot.colour(index), name) for name, index in series.items()]
    if ringed:
        keys.append(("ring", "c6", f"outlier: modified z-score above {outlier_limit:.1f}"))
    return plot.plane(x, y, "repetition", "% from the variant's median", marks) + plot.legend(keys)


def losses_of(v):
    values = at(v, "curves.loss")
    return [as_number(value) for value in values] if isinstance(values, list) else None


def curves(variants):
    """A plane for each set of variants that should train alike: same batch, network and precision."""
    panels = []
    for v in variants:
        if losses_of(v) is None:
            continue
        own = next((panel for panel in panels if same_batch(panel[0], v) and
                    word(panel[0], "precision") == word(v, "precision")), None)
        if own:
            own.append(v)
        else:
            panels.append([v])
    drawn = "".join(map(panel_of, panels[:PANELS_MAX]))
    return f'<div class="panels">\n{drawn}</div>\n' if panels else ""


def panel_of(variants):
    x, y = plot.Axis(1.0, 2.0, whole=True), plot.Axis()
    for v in variants:
        x.widen(float(len(losses_of(v))))
        y.widen(*losses_of(v))
    if not isfinite(y.low):
        return ""
    y.round(y.low > 0 and y.high / y.low > 20)
    model = word(variants[0], "model")
    lines, keys = [], []
    for i, v in enumerate(variants):
        losses = losses_of(v)
        every = max(1, -(-len(losses) // CURVE_POINTS))  # of a long curve every n-th step
        name = plot.colour(i) + (" thin" if i else "")  # thin where it may lie on another
        lines.append(plot.line(x, y, [(k + 1, losses[k]) for k in range(0, len(losses), every)], name))
        keys.append(("line", name, series_of(v)))
    title = f"loss, {model + ', ' if model else ''}batch {number(variants[0], 'key'):.0f}"
    return f'<div class="panel">{plot.plane(x, y, "step", title, lines)}{plot.legend(keys)}</div>\n'
