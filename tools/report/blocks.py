"""The report of a document as a list of blocks, from its answer down to its details, so that Markdown and HTML
(page.py) say the same. A block is a dict with "kind":
    heading  level, text
    text     text
    list     items [text]
    answers  items [(verdict, text)]: the first thing a reader sees
    facts    items [(name, text)]
    table    columns [(name, kind)], rows [[text]]; kind: t text, n number, v verdict, h what the row is about
    chart    title, caption, body: HTML; Markdown has none
Texts may contain **bold** and `code`. Documents of earlier versions know less: then a line or column is left out.
"""
import math

import charts
import study_blocks
import text
from document import at, divide, isfinite, members, number, objects, speedup, traced, word

LISTED = 4  # more batches, ranks or networks are a range or a number in the title


class Report:
    def __init__(self):
        self.blocks = []

    def add(self, kind, **block):
        self.blocks.append(dict(block, kind=kind))

    def heading(self, level, words):
        self.add("heading", level=level, text=words)

    def text(self, words):
        self.add("text", text=words)

    def item(self, words):
        """Of the list that is the last block, else of a new list."""
        if not self.blocks or self.blocks[-1]["kind"] != "list":
            self.add("list", items=[])
        self.blocks[-1]["items"].append(words)

    def table(self, columns, things):
        """A row for each thing; a column is (name, kind, function from thing to text)."""
        self.rows([column[:2] for column in columns], [[column[2](thing) for column in columns] for thing in things])

    def rows(self, columns, rows):
        """Without the columns in which no row has anything; no table without rows."""
        kept = [k for k in range(len(columns)) if any(row[k] for row in rows)]
        if rows:
            self.add("table", columns=[columns[k] for k in kept], rows=[[row[k] for k in kept] for row in rows])

    def chart(self, title, caption, body):
        if body:
            self.add("chart", title=title, caption=caption, body=body)

    def tidied(self):
        """Without the headings, and the texts below them, that are about nothing: no table, list or chart follows
        before the next heading of their level."""
        kept = list(self.blocks)
        for i in reversed(range(len(kept))):
            if kept[i]["kind"] == "heading" and is_void(kept, i):
                end = i + 1
                while end < len(kept) and kept[end]["kind"] == "text":
                    end += 1
                del kept[i:end]
        return kept


def is_void(blocks, at_index):
    for block in blocks[at_index + 1:]:
        if block["kind"] == "heading" and block["level"] <= blocks[at_index]["level"]:
            return True
        if block["kind"] not in ("heading", "text"):
            return False
    return True


def title_of(d):
    """mlp-medium, batches 16 and 1024, 1 and 2 ranks"""
    variants = objects(d, "variants")

    def values(key):
        return sorted({number(v, key) for v in variants if isfinite(number(v, key))})

    def shown(numbers):
        if len(numbers) > LISTED:
            return f"{numbers[0]:.0f} to {numbers[-1]:.0f}"
        return text.listed([f"{value:.0f}" for value in numbers])

    models = list(dict.fromkeys(word(v, "model") for v in variants if word(v, "model")))
    own = word(d, "run.network") or word(d, "config").rsplit("/", 1)[-1]
    title = f"{len(models)} networks" if len(models) > LISTED else text.listed(models) or own
    batches, ranks = values("key"), values("ranks")
    if batches:
        per_rank = " per rank" if at(d, "method.weak") is True else ""
        title += f", batch{'es' if len(batches) > 1 else ''}{per_rank} {shown(batches)}"
    if ranks:
        title += f", {shown(ranks)} rank{'' if ranks == [1] else 's'}"
    return title


def report_of(d):
    r, variants = Report(), objects(d, "variants")
    r.add("answers", items=[(word(a, "verdict"), word(a, "text")) for a in objects(d, "answers")])
    r.add("facts", items=[fact for fact in facts(d) if fact[1]])
    results(r, variants)
    study_blocks.study(r, d)
    step_parts(r, variants)
    memory(r, variants)
    validation(r, variants)
    tests(r, d, variants)
    repetitions(r, d, variants)
    trust(r, d)
    return r.tidied()


# ---- what, where, when and how was measured, and whether the numbers can be trusted ----


def code(words):
    return f"`{words.replace('`', chr(39))}`" if words else ""


def facts(d):
    first = (objects(d, "variants") or [{}])[0]
    params, network = number(first, "params"), word(d, "run.network")
    if "model" not in first and isfinite(params):  # several networks: each variant names its own
        name_of = f"{network}, " if network else ""
        yield "Network", f"{name_of}{text.count(params)} parameters, {word(first, 'precision')}"
    yield "Machine", machine_text(d)
    gpus = objects(d, "machine.gpu")
    if gpus:  # GPUs of one machine are alike, or only the first is named
        yield "GPUs", f"{len(gpus)} x {word(gpus[0], 'name')}, {text.size(number(gpus[0], 'memory_bytes'))}"
    created = word(d, "run.created")
    yield "Date", f"{created[:10]} {created[11:16]} UTC" if len(created) == 20 else ""
    yield "Software", software_text(d)
    yield "Command", code(word(d, "run.command_line"))
    yield "Configuration", code(word(d, "config"))
    method = [number(d, f"method.{key}") for key in ("repetitions", "repetitions_per_process", "steps", "warmup_steps")]
    steps = "as many steps as the time limit allows" if any("steps" in v for v in objects(d, "variants")) else (
        "{:.0f} measured steps after {:.0f} warm-up steps".format(*method[2:]))
    yield "Repetitions", "{:.0f} of each variant, {:.0f} per process; {}".format(*method[:2], steps)
    seed, order = number(d, "run.seed"), number(d, "method.order_seed")
    yield "Seeds", (f"{seed:.0f} of training, {order:.0f} of the order of repetitions" if isfinite(seed) else
                    f"{order:.0f} of the order")
    before, after = number(d, "run.load_before"), number(d, "run.load_after")
    if isfinite(before) and isfinite(after):
        yield "Load", (f"{before:.2f} before, {after:.2f} after (load average of a minute, "
                       f"{number(d, 'run.processors'):.0f} processors)")


def machine_text(d):
    cores, virtualization = number(d, "machine.cores"), word(d, "machine.virtualization")
    if not isfinite(cores):
        return ""
    return (f"{word(d, 'machine.cpu_model')}, {cores:.0f} core{text.plural(cores)}, "
            f"{number(d, 'machine.usable_cpus'):.0f} processors to use, "
            f"{text.size(number(d, 'machine.memory_bytes'))} of memory{', ' if virtualization else ''}{virtualization}")


def software_text(d):
    version, commit = word(d, "run.lockstep"), word(d, "run.commit")
    own = f"lockstep {version}{f' (commit {commit})' if commit else ''}" if version else ""
    rows = (("", "blas"), ("", "mpi"), ("driver ", "driver"), ("CUDA ", "cuda"), ("NCCL ", "nccl"), ("", "kernel"))
    return ", ".join(filter(None, [own] + [name + word(d, f"machine.{key}") for name, key in rows
                                           if word(d, f"machine.{key}")]))


def trust(r, d):
    pairs, alarms = number(d, "control.pairs"), number(d, "control.false_alarms")
    r.heading(2, "Can the numbers be trusted?")
    if pairs > 0:
        r.item(f"A/A control: the same variant twice, {pairs:.0f} pair{text.plural(pairs)} of "
               f"{number(d, 'control.repetitions_per_side'):.0f} repetitions a side: {alarms:.0f} false "
               f"alarm{text.plural(alarms)} ({100 * number(d, 'control.false_alarm_rate'):.0f} %, where at most "
               f"{100 * number(d, 'control.alpha'):.0f} % are promised).")
    else:
        r.item("A/A control: not run.")
    r.item(f"Clock and heat limits: CPU {word(d, 'limits.cpu')}, GPU {word(d, 'limits.gpu')}.")
    r.item(f"Method: every repetition is a fresh run; {word(d, 'method.order')}. Intervals are at "
           f"{100 * number(d, 'method.confidence'):.0f} %: Student's t over the repetitions for step times; for "
           "speed-ups the wider of the bootstrap's and Welch's.")
    r.item(f"Outliers are repetitions whose modified z-score is above {number(d, 'method.outlier_limit'):.1f}: far "
           "from the median for how close the others lie to it. They are flagged, never dropped in silence.")


# ---- tables ----


def name(v):
    return word(v, "name")


def own_verdict(v):
    return "not measured" if "failed" in v else word(v, "against_reference.verdict") or "reference"


def measured(variants):
    return [v for v in variants if "step_time_us" in v]


def reads(path, per=1.0, form=text.digits):
    return lambda v: form(number(v, path) / per)


def around(path, per):
    return lambda v: text.around(*(number(v, f"{path}.{key}") / per for key in ("mean", "low", "high")))


def rate(v):
    """Samples per second, as exact as its step time."""
    mean = number(v, "samples_per_s.mean")
    half = (number(v, "step_time_us.high") - number(v, "step_time_us.low")) / 2
    half *= divide(mean, number(v, "step_time_us.mean"))
    return text.within(mean, mean - half, mean + half)


def results(r, variants):
    unit, us = charts.unit_of(variants)
    r.heading(2, "Results")
    r.table([
        ("verdict", "v", own_verdict),
        ("variant", "h", name),
        ("speed-up (95 % interval)", "n", lambda v: text.ratio(*speedup(v))),
        (f"step time, {unit} (± 95 %)", "n", around("step_time_us", us)),
        ("samples/s", "n", rate),
        ("efficiency", "n", reads("scaling.efficiency", 0.01, text.percent)),
        (f"predicted, {unit} (90 % interval)", "n", lambda v: text.span(
            *(number(v, f"predicted_step_time_us.{key}") / us for key in ("predicted", "low", "high")))),
        ("prediction's error", "n", lambda v: text.percent(
            number(v, "predicted_step_time_us.error_percent"), 1, True)),
        ("bytes per device", "n", lambda v: text.size(number(v, "bytes_per_device.total") or math.nan))], variants)
    for v in variants:
        if "failed" in v:
            r.item(f"**{name(v)}** not measured: {word(v, 'failed')}")
        elif "incomplete" in v:
            r.item(f"**{name(v)}** has only {number(v, 'step_time_us.count'):.0f} repetitions: {word(v, 'incomplete')}")
    r.chart("Speed-up over the reference",
            "How many times as fast as the reference, which stands at the dashed line.", charts.speed_up(variants))
    r.chart("Step time",
            "Mean of a step over all repetitions; less is better. An interval without a mark at its end goes on beyond "
            "the scale.", charts.step_time(variants))


def step_parts(r, variants):
    unit, us = charts.unit_of(variants)
    r.heading(2, "Where a step's time goes")
    if any(map(traced, variants)):
        r.text("Traced: a captured step is one launch and hides its parts, so they come from one more repetition whose "
               "tasks are launched one by one; such a step is slower.")
    if any("utilisation" in v for v in variants):
        r.text("Peak is the machine's fastest measured matrix product.")
    if any("gpu" in v for v in variants):
        r.text("Busy is NVML's share of time in which kernels ran; energy is that of all devices of the variant.")
    r.chart("Parts of a step",
            "Rank 0, mean of all repetitions; communication counts as far as nothing is computed meanwhile.",
            charts.parts(variants))
    parts = ("input", "forward", "backward", "exposed_comm", "optimizer", "rest")
    r.table([("variant", "h", lambda v: name(v) + (" (traced)" if traced(v) else ""))] +
            [(f"{charts.kind_words(part)}, {unit}", "n", reads(f"step_parts_us.{part}", us)) for part in parts] + [
        ("exposed of step", "n", lambda v: text.percent(
            100 * divide(number(v, "step_parts_us.exposed_comm"), number(v, "step_parts_total_us")), 1)),
        ("GFLOP/s per rank", "n", reads("flops_per_s_per_rank", 1e9)),
        ("of peak FLOP/s", "n", reads("utilisation.peak_flops_percent", 1, lambda x: text.percent(x, 1))),
        ("GPU busy", "n", reads("gpu.busy_percent", 1, text.percent)),
        ("J per step", "n", reads("gpu.energy_j_per_step"))], measured(variants))
    r.chart("Timeline of a step",
            "Rank 0: what each lane does when, mean of the steps of one repetition, the first. Parts and table above "
            "are of all repetitions, so they differ by what repetitions do. Communication is drawn whole; above, what runs "
            "beside computing does not count. Gaps belong to rest.", charts.timeline(variants))
    r.heading(3, "Collectives")
    r.text("Rank 0; waiting for the slowest rank is inside.")
    r.table([
        ("variant", "h", lambda pair: name(pair[0])),
        ("collective", "t", lambda pair: name(pair[1])),
        ("size", "n", lambda pair: text.size(number(pair[1], "size_bytes") or math.nan)),
        ("time, us", "n", lambda pair: text.digits(number(pair[1], "time_us"))),
        ("algorithm GB/s", "n", lambda pair: text.digits(number(pair[1], "algorithm_bw_bytes_per_s") / 1e9)),
        ("bus GB/s", "n", lambda pair: text.digits(number(pair[1], "bus_bw_bytes_per_s") / 1e9))],
            [(v, c) for v in variants for c in objects(v, "collectives")])


def memory(r, variants):
    own = [v for v in variants if "bytes_per_device" in v]
    r.heading(2, "Memory")
    r.table([("variant", "h", name)] +
            [(key, "n", lambda v, key=key: text.size(dict(members(v, "bytes_per_device")).get(key) or math.nan))
             for key, _ in members(own[0] if own else {}, "bytes_per_device")], own)
    r.chart("Bytes per device",
            "What each rank keeps on its device. Bookkeeping: task lists, times and figures of steps, rounding to "
            "pages.",
            charts.memory(variants))


def validation(r, variants):
    r.heading(2, "Do several ranks train the same network?")
    r.text("Criteria: final loss differs by less than 0.01, gradient norms correlate above 0.95, weights differ by "
           "less than 1e-4 on average. A reproducible step (parallel.reproducible) has to give identical weights, bit "
           "for bit.")
    r.table([
        ("verdict", "v", lambda v: word(v, "validation.verdict")),
        ("variant", "h", name),
        ("final loss differs by", "n", reads("validation.final_loss_difference")),
        ("gradient norms correlate", "n", reads("validation.grad_norm_correlation", 1, text.correlation)),
        ("weights differ by", "n", reads("validation.weight_difference_mean_abs")),
        ("identical", "t", lambda v: "yes" if at(v, "validation.identical") is True else "no")],
            [v for v in variants if "validation" in v])
    r.chart("Training loss", "Of each step. Curves that lie on each other train the same network.",
            charts.curves(variants))


def tests(r, d, variants):
    r.heading(2, "Against the reference")
    r.text('The reference of a variant is the one with the fewest ranks of its batch. "faster" and "slower": the means '
           "differ (Welch's p below 0.05). \"equivalent\": the difference is shown to be below "
           f'{number(d, "method.margin_percent"):g} % (equivalence p below 0.05). "undecided": neither is shown.')
    r.table([
        ("verdict", "v", own_verdict),
        ("variant", "h", name),
        ("against", "t", lambda v: word(v, "scaling.reference")),
        ("difference, % (± 95 %)", "n", lambda v: text.around(
            *(number(v, f"against_reference.difference_{key}percent") for key in ("", "low_", "high_")))),
        ("Welch p", "n", reads("against_reference.welch_p", 1, text.p_value)),
        ("p without outliers", "n", reads("against_reference_without_outliers.welch_p", 1, text.p_value)),
        ("equivalence p", "n", reads("against_reference.equivalence_p", 1, text.p_value))],
            [v for v in variants if "scaling" in v])


def outliers(v):
    """1 of 5: number 5, +350.0 %: how many, which, and how far from the median."""
    flagged, count = at(v, "outliers"), f"{number(v, 'step_time_us.count'):.0f}"
    flagged = flagged if isinstance(flagged, list) else []
    own = objects(v, "repetitions")
    if len(flagged) != 1 or not isinstance(flagged[0], int) or not 0 <= flagged[0] < len(own):
        return f"{len(flagged)} of {count}"
    return f"1 of {count}: number {flagged[0] + 1}, {text.percent(charts.off_median(v, own[flagged[0]]), 1, True)}"


def repetitions(r, d, variants):
    unit, us = charts.unit_of(variants)
    r.heading(2, "Repetitions")
    r.chart("Spread", "Every repetition against its variant's median, in the order in which they were measured.",
            charts.repetitions(variants, number(d, "method.outlier_limit")))
    r.table([
        ("variant", "h", name),
        (f"median, {unit}", "n", reads("step_time_us.median", us)),
        (f"least, {unit}", "n", reads("step_time_us.min", us)),
        (f"most, {unit}", "n", reads("step_time_us.max", us)),
        (f"mean without outliers, {unit}", "n", around("step_time_us_without_outliers", us)),
        ("outliers", "n", outliers),
        ("gradient norm", "n", reads("grad_norm")),
        ("loss", "n", reads("loss"))], measured(variants))
