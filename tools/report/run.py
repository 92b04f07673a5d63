"""The report of a watched training (`lockstep report`): what its event logs say, as blocks (blocks.py).

What a supervisor wrote of the run's faults (supervise.json) and the prices of its configuration (cost) say what each fault
cost. A life is what one process did: from a line "start" to the next one. Time is good if it was spent in steps that the run has
kept; steps behind the checkpoint from which the next life went on were done twice.
"""
import time

import plot
import text
from blocks import Report
from document import NAN, as_number, at, divide, isfinite, most, number, objects, word

PARTS = ("input", "forward", "backward", "exposed_comm", "optimizer", "rest")
POINTS = 600  # of a curve
EVALUATIONS = 40  # rows of their table


class Life:
    def __init__(self, start):
        self.start, self.records, self.end, self.saves, self.evaluations = start, [], None, [], []

    def last(self, name):
        """The newest known value."""
        return next((number(r, name) for r in reversed(self.records) if isfinite(number(r, name))), NAN)

    def first(self, name):
        return next((number(r, name) for r in self.records if isfinite(number(r, name))), NAN)

    def from_step(self):
        return number(self.start, "step")

    def to_step(self):
        step = self.last("step")
        return step if isfinite(step) else self.from_step()

    def from_time(self):
        return number(self.start, "t")

    def to_time(self):
        known = [number(line, "t") for line in [self.start, *self.records, *self.saves, self.end or {}]]
        return most(known)

    def how(self):
        return word(self.end, "text") if self.end else "no word of an end: killed, or still running"


def lives_of(rank):
    lives, alerts = [], []
    for line in objects(rank, "lines"):
        kind = word(line, "kind")
        if kind == "start" or not lives:
            lives.append(Life(line if kind == "start" else {}))
        if kind == "record":
            lives[-1].records.append(line)
        elif kind == "end":
            lives[-1].end = line
        elif kind == "save":
            lives[-1].saves.append(line)
        elif kind == "evaluation":
            lives[-1].evaluations.append(line)
        elif kind.startswith("alert"):
            alerts.append(line)
    return lives, alerts


def repeated(life, following):
    """Steps that the next life did again."""
    return max(0.0, life.to_step() - following.from_step()) if following else 0.0


def usual_us(lives):
    times = sorted(number(r, "step_time_us") for life in lives for r in life.records
                   if isfinite(number(r, "step_time_us")))
    return times[len(times) // 2] if times else NAN


def clock(t):
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(t)) if 0 < t < 1e11 else ""


def duration(seconds):
    if not isfinite(seconds):
        return ""
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}" if seconds >= 60 else f"{text.digits(seconds)} s"


def goodput(lives):
    """Share of the time since the run began that was spent in steps that count."""
    good = 0.0
    for life, following in zip(lives, lives[1:] + [None]):
        done = life.to_step() - life.from_step()
        spent = life.last("step_s")
        if done > 0 and isfinite(spent):
            good += spent * (done - repeated(life, following)) / done
    return divide(good, lives[-1].to_time() - lives[0].from_time())


def price(ranks):
    """(currency, per hour of the run) by the prices of the configuration: rent of its devices, and their energy by their
    assumed power where none is measured. ("", NaN) without prices."""
    start = ranks[0][1][-1].start
    devices = number(start, "ranks") if isfinite(number(start, "ranks")) else 1.0
    watts = 0.0 if isfinite(energy(ranks)) else number(start, "cost.power_w") * devices
    hour = number(start, "cost.device_hour") * devices + watts / 1000 * number(start, "cost.price_kwh")
    return word(start, "cost.currency"), hour if isfinite(hour) else NAN


def money(ranks):
    """What the run has cost, measured energy of GPUs included; NaN without prices."""
    lives = ranks[0][1]
    _, hour = price(ranks)
    kwh = energy(ranks) / 3.6e6 if isfinite(energy(ranks)) else 0.0
    return hour * (lives[-1].to_time() - lives[0].from_time()) / 3600 + kwh * number(lives[-1].start, "cost.price_kwh")


def amount(currency, value):
    return f"{value:,.2f} {currency}" if isfinite(value) else ""


def budget(lives):
    """(what, seconds) of the time since the run began; they add up to it."""
    total = lives[-1].to_time() - lives[0].from_time()
    again = sum(repeated(life, following) * divide(life.last("step_s"), life.to_step() - life.from_step())
                for life, following in zip(lives, lives[1:]) if life.to_step() > life.from_step())
    sums = {name: sum(s for s in (life.last(name) for life in lives) if isfinite(s))
            for name in ("step_s", "evaluation_s", "save_s")}
    between = sum(max(0.0, following.from_time() - life.to_time()) for life, following in zip(lives, lives[1:]))
    known = [("steps that count", sums["step_s"] - again), ("steps done again", again),
             ("evaluation", sums["evaluation_s"]), ("saving", sums["save_s"]), ("no process ran", between)]
    return known + [("starting, reading data, ending", max(0.0, total - sum(s for _, s in known)))]


def faults(document, lives):
    """Each fault of a supervised run and the seconds that it cost: from the last sign of the life that it ended to the next
    life's first step, and the steps done again."""
    found = objects(document, "supervised.lives")
    step_s = usual_us(lives) * 1e-6
    for life, following in zip(found, found[1:] + [{}]):
        if not isinstance(at(life, "fault"), dict):
            continue
        down = number(following, "first_step_unix_s") - number(life, "ended_unix_s")
        again = max(0.0, number(life, "last_step") - number(following, "first_step"))
        yield {"fault": life["fault"], "down_s": down, "again": again, "cost_s": down + again * step_s,
               "noticed": number(life, "fault.noticed_unix_s"), "why": word(life, "why")}


def energy(ranks):
    """Joules of all GPUs, of the time that was watched; NaN without GPUs."""
    used = [life.last("gpu_energy_j") - life.first("gpu_energy_j") for _, lives in ranks for life in lives]
    known = [joules for joules in used if isfinite(joules)]
    return sum(known) if known else NAN


def best_of(lives):
    return next((line for line in reversed(evaluated(lives)) if at(line, "best") is True), None)


def exactly(value):
    """As the program writes it."""
    return f"{value:.6g}" if isfinite(value) else ""


def best_words(lives):
    best = best_of(lives)
    if best is None:
        return ""
    accuracy = text.percent(100 * number(best, "val_accuracy"), 2)
    return (f"{exactly(number(best, 'val_loss'))}{', ' + accuracy if accuracy else ''} at step {text.count(number(best, 'step'))}, "
            f"epoch {number(best, 'epoch'):.4g}")


def facts(ranks):
    lives = ranks[0][1]
    start, median = lives[-1].start, usual_us(lives)
    predicted = number(start, "predicted_us")
    total, done = lives[-1].last("total_steps"), lives[-1].to_step()
    items = [("state", lives[-1].how()),
             ("steps", f"{text.count(done)} of {text.count(total)}" if isfinite(total) else text.count(done)),
             ("from", clock(lives[0].from_time())), ("to", clock(lives[-1].to_time())),
             ("duration", duration(lives[-1].to_time() - lives[0].from_time())),
             ("goodput", text.percent(100 * goodput(lives), 1)),
             ("restarts", str(len(lives) - 1)),
             ("ranks", f"{number(start, 'ranks'):.0f} ({word(start, 'strategy')}, {word(start, 'backend')}, "
                       f"{word(start, 'precision')})" if isfinite(number(start, "ranks")) else ""),
             ("device", word(start, "device")), ("parameters", text.count(number(start, "params"))),
             ("loss", text.digits(lives[-1].last("loss_mean"))),
             ("validation loss", text.digits(lives[-1].last("val_loss"))),
             ("validation accuracy", text.percent(100 * lives[-1].last("val_accuracy"), 2)),
             ("best evaluation", best_words(lives)),
             ("samples/s", text.digits(lives[-1].last("samples_per_s"))),
             ("time of a step, median", text.time(median)),
             ("predicted by the plan", f"{text.time(predicted)}, {text.percent(100 * predicted / median - 100, 1, True)}"
              if isfinite(predicted) and isfinite(median) and median > 0 else ""),
             ("skipped steps", text.count(sum(s for s in (life.last("skipped_steps") for life in lives) if isfinite(s)))),
             ("energy of GPUs", f"{text.digits(energy(ranks) / 3.6e6)} kWh" if isfinite(energy(ranks)) else ""),
             ("cost", amount(price(ranks)[0], money(ranks)))]
    return [(name, words) for name, words in items if words]


def series(lives, name, x):
    found = [(number(r, x), number(r, name)) for life in lives for r in life.records]
    return [point for point in found if all(map(isfinite, point))]


def evaluated(lives):
    """The evaluations that the run has kept, in the order of their steps."""
    found = []
    for life in lives:
        found = [line for line in found if not number(line, "step") >= life.from_step()] + life.evaluations
    return found


def measured(lives, name, scale=1.0):
    found = [(number(line, "step"), scale * as_number(line.get(name))) for line in evaluated(lives)]
    return [point for point in found if all(map(isfinite, point))]


def figures(lives):
    """What evaluations have beside loss and accuracy."""
    usual = ("val_loss", "val_accuracy")
    return list(dict.fromkeys(name for line in evaluated(lives) for name in line
                              if name.startswith("val_") and name not in usual))


def figure_words(name):
    return name[len("val_"):].replace(".", ", ")


def curve(lines, x_name, y_name, from_zero=False, whole=True, points_of=()):
    """One plane with a line for each (name, points); "" where there is no line of two points. Those of points_of were
    measured at these places alone: they are dots with a thin line."""
    lines = [(name, points) for name, points in lines if len(points) > 1 or (points and name in points_of)]
    x, y = plot.Axis(whole=whole), plot.Axis()
    for _, points in lines:
        x.widen(*(at for at, _ in points))
        y.widen(*(value for _, value in points))
    if not lines or not x.high > x.low:
        return ""
    y.round(from_zero or (y.low > 0 and y.high / y.low > 20))
    drawn, keys = [], []
    for i, (name, points) in enumerate(lines):
        every = max(1, -(-len(points) // POINTS))
        shown = points[::every] + points[-1:]
        drawn.append(plot.line(x, y, shown, plot.colour(i) + (" thin" if name in points_of else "")))
        if name in points_of:
            drawn += [plot.dot(x, y, at, value, plot.colour(i), False, f"{x_name} {text.count(at)}: {text.digits(value)}")
                      for at, value in shown]
        keys.append(("dot" if name in points_of else "line", plot.colour(i), name))
    return plot.plane(x, y, x_name, y_name, drawn) + (plot.legend(keys) if len(lines) > 1 else "")


def of_ranks(ranks, name, scale=1.0):
    begin = min(lives[0].from_time() for _, lives in ranks)
    return [(f"rank {rank}", [((t - begin) / 60, scale * value) for t, value in series(lives, name, "t")])
            for rank, lives in ranks]


def charts(r, ranks):
    lives = ranks[0][1]
    r.heading(2, "Curves")
    r.chart("Loss", "Training: mean of the steps between two records. Validation: the evaluations.",
            curve([("training", series(lives, "loss_mean", "step")), ("validation", measured(lives, "val_loss"))],
                  "step", "loss", points_of=("validation",)))
    for title, name, unit, scale in [("Validation accuracy", "val_accuracy", "%", 100.0)] + \
            [(f"Validation {figure_words(name)}", name, figure_words(name), 1.0) for name in figures(lives)]:
        r.chart(title, "", curve([("", measured(lives, name, scale))], "step", unit, points_of=("",)))
    r.chart("Learning rate", "", curve([("", series(lives, "lr", "step"))], "step", "learning rate"))
    r.heading(2, "Speed")
    r.chart("Time of a step", "", curve([("", series(lives, "step_time_us", "step"))], "step", "us", True))
    r.chart("Parts of a step", "Means between two records.",
            curve([(part.replace("_comm", " communication"), series(lives, part + "_us", "step")) for part in PARTS],
                  "step", "us"))
    r.heading(2, "Machine")
    for title, unit, name, scale in (("GPU utilisation", "%", "gpu_ratio", 100.0), ("GPU power", "W", "gpu_power_w", 1.0),
                                     ("GPU temperature", "C", "gpu_temperature_c", 1.0),
                                     ("GPU memory", "GB", "gpu_memory_bytes", 1e-9), ("GPU clock", "MHz", "gpu_clock_mhz", 1.0),
                                     ("Processors in use", "processors", "cpu_ratio", 1.0),
                                     ("Resident memory", "MB", "memory_bytes", 1e-6)):
        r.chart(title, "", curve(of_ranks(ranks, name, scale), "minutes", unit, True, whole=False))


def evaluations(r, lives):
    rows, best = evaluated(lives), best_of(lives)
    r.heading(2, "Evaluations")
    if len(rows) > EVALUATIONS:
        r.text(f"The last {EVALUATIONS} of {len(rows)}, and the best.")
    shown = [line for i, line in enumerate(rows) if i >= len(rows) - EVALUATIONS or line is best]
    r.table([("step", "h", lambda e: text.count(number(e, "step"))), ("epoch", "n", lambda e: f"{number(e, 'epoch'):.4g}"),
             ("training loss", "n", lambda e: exactly(number(e, "train_loss"))),
             ("validation loss", "n", lambda e: exactly(number(e, "val_loss"))),
             ("accuracy", "n", lambda e: text.percent(100 * number(e, "val_accuracy"), 2))] +
            [(figure_words(name), "n", lambda e, name=name: exactly(as_number(e.get(name)))) for name in figures(lives)] +
            [("", "t", lambda e: "best" if e is best else "")], shown)


def timeline(r, line, rank):
    """The tasks of the newest step that was traced: a row per lane, a colour per part."""
    names = at(line, "lanes") if isinstance(at(line, "lanes"), list) else []
    tasks = [task for task in at(line, "tasks") or [] if isinstance(task, list) and len(task) == 5
             and isinstance(task[0], str) and all(isinstance(value, (int, float)) for value in task[1:])]
    axis = plot.Axis(low=0.0)
    axis.widen(*(task[3] + task[4] for task in tasks))
    if not tasks or not axis.high > 0:
        return
    axis.round(True)
    rows = []
    for lane in sorted({int(task[1]) for task in tasks}):
        own = [task for task in tasks if int(task[1]) == lane]
        bars = [plot.bar(axis, task[3], task[3] + task[4], plot.colour(int(task[2])), f"{task[0]}: {text.time(task[4])}")
                for task in own]
        label = names[lane] if 0 <= lane < len(names) and isinstance(names[lane], str) else str(lane)
        rows.append(plot.row(axis, label, bars, text.time(sum(task[4] for task in own))))
    parts = sorted({int(task[2]) for task in tasks if 0 <= task[2] < len(PARTS)})
    keys = [("bar", plot.colour(part), PARTS[part].replace("exposed_comm", "communication")) for part in parts]
    r.chart("Timeline", f"Tasks of step {text.count(number(line, 'step'))} of rank {rank}.",
            plot.rows(axis, "us", rows) + plot.legend(keys))


def predictions(r, ranks):
    lives = ranks[0][1]
    start, rows = lives[-1].start, []
    median, predicted = usual_us(lives), number(start, "predicted_us")
    if isfinite(predicted) and median > 0:
        rows.append(("time of a step", text.time(predicted), text.time(median), predicted / median))
    for rank, own in ranks:
        need = number(own[-1].start, "need_bytes")
        used = own[-1].last("gpu_memory_bytes")
        used = used if isfinite(used) else own[-1].last("memory_bytes")
        if isfinite(need) and isfinite(used) and used > 0:
            rows.append((f"memory of rank {rank}", f"{text.size(need)} without libraries", f"{text.size(used)} with libraries", NAN))
    r.heading(2, "Predictions and measurements")
    r.text("The step time is a plan's prediction. Memory is computed from the schedules. What libraries take comes on top: "
           "`lockstep plan` and the report at the end of `lockstep train` predict that, too, where `lockstep probe` has measured it.")
    r.table([("what", "h", lambda row: row[0]), ("predicted", "n", lambda row: row[1]), ("measured", "n", lambda row: row[2]),
             ("difference", "n", lambda row: text.percent(100 * row[3] - 100, 1, True))], rows)


def costs(r, document, ranks):
    lives = ranks[0][1]
    currency, hour = price(ranks)
    spent = [(what, seconds) for what, seconds in budget(lives) if seconds > 0]
    total = sum(seconds for _, seconds in spent)
    priced = [("cost", "n", lambda s: amount(currency, s[1] / 3600 * hour))] if isfinite(hour) else []
    r.heading(2, "Where the time went")
    r.table([("what", "h", lambda s: s[0]), ("time", "n", lambda s: duration(s[1])),
             ("share", "n", lambda s: text.percent(100 * divide(s[1], total), 1))] + priced, spent)
    r.heading(2, "Faults")
    r.text("Down is the time from the end of the ranks to the next life's first step. Cost adds the steps that were done again.")
    r.table([("noticed", "h", lambda f: clock(f["noticed"])), ("cause", "t", lambda f: word(f["fault"], "cause")),
             ("what", "t", lambda f: word(f["fault"], "text")), ("rank", "n", lambda f: text.count(number(f["fault"], "rank"))),
             ("down", "n", lambda f: duration(f["down_s"])), ("steps again", "n", lambda f: text.count(f["again"])),
             ("cost", "n", lambda f: duration(f["cost_s"]))] +
            ([("money", "n", lambda f: amount(currency, f["cost_s"] / 3600 * hour))] if isfinite(hour) else []) +
            [("not started again", "t", lambda f: f["why"])], list(faults(document, lives)))


def tables(r, ranks, alerts):
    lives = ranks[0][1]
    r.heading(2, "Processes")
    r.text("Steps done again are those behind the checkpoint with which the next process went on. Idle is the time until then.")
    pairs = list(zip(lives, lives[1:] + [None]))
    r.table([("began", "h", lambda p: clock(p[0].from_time())), ("from step", "n", lambda p: text.count(p[0].from_step())),
             ("to step", "n", lambda p: text.count(p[0].to_step())), ("end", "t", lambda p: p[0].how()),
             ("in steps", "n", lambda p: duration(p[0].last("step_s"))),
             ("evaluating", "n", lambda p: duration(p[0].last("evaluation_s"))),
             ("saving", "n", lambda p: duration(p[0].last("save_s"))),
             ("done again", "n", lambda p: text.count(repeated(*p)) if p[1] else ""),
             ("idle", "n", lambda p: duration(p[1].from_time() - p[0].to_time()) if p[1] else "")], pairs)
    r.heading(2, "Ranks")
    r.table([("rank", "h", lambda p: str(p[0])), ("host", "t", lambda p: word(p[1][-1].start, "host")),
             ("time of a step", "n", lambda p: text.time(usual_us(p[1]))),
             ("exposed communication", "n", lambda p: text.time(p[1][-1].last("exposed_comm_us"))),
             ("processors", "n", lambda p: text.digits(p[1][-1].last("cpu_ratio"))),
             ("memory", "n", lambda p: text.size(p[1][-1].last("memory_bytes"))),
             ("GPU memory", "n", lambda p: text.size(p[1][-1].last("gpu_memory_bytes"))),
             ("exchanged", "n", lambda p: text.size(p[1][-1].last("exchanged_bytes")))], ranks)
    r.heading(2, "Alerts")
    r.table([("time", "h", lambda a: clock(number(a, "t"))), ("rank", "n", lambda a: text.count(number(a, "rank"))),
             ("alert", "t", lambda a: word(a, "alert")), ("what", "t", lambda a: word(a, "status") or "could not be passed on"),
             ("condition", "t", lambda a: word(a, "when") or word(a, "why")),
             ("value", "n", lambda a: text.digits(number(a, "value")))], alerts)


def report_of(document):
    """(title, blocks) of a document of `lockstep report`; None if no rank has begun."""
    ranks, alerts, timelines = [], [], []
    for rank in objects(document, "ranks"):
        timelines += [(at(rank, "rank"), line) for line in objects(rank, "lines") if word(line, "kind") == "timeline"]
        lives, own = lives_of(rank)
        if lives:
            ranks.append((at(rank, "rank"), lives))
            alerts += own
    if not ranks:
        return None
    r = Report()
    r.add("facts", items=facts(ranks))
    charts(r, ranks)
    evaluations(r, ranks[0][1])
    for number_of_rank, line in timelines[:1]:
        timeline(r, line, number_of_rank)
    predictions(r, ranks)
    costs(r, document, ranks)
    tables(r, ranks, sorted(alerts, key=lambda a: number(a, "t")))
    return word(document, "dir"), r.tidied()
