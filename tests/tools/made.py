"""Made documents, as lockstep bench would write them: `made.py DIR` writes the reports of each kind into DIR, as wide as
their kind gets, for layout.sh to look at in a browser."""
import math
import os
import statistics
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/report"))

SLOW, QUICK, SPIKED = [200, 202, 198, 201, 199], [125, 126, 124, 125.5, 124.5], [200, 202, 198, 201, 900]
PARTS = ("input", "forward", "backward", "exposed_comm", "optimizer", "rest")


def summary(values):
    mean = statistics.fmean(values)
    half = 2.8 * statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
    return {"count": len(values), "mean": mean, "median": statistics.median(values),
            "low": None if half is None else mean - half, "high": None if half is None else mean + half,
            "min": min(values), "max": max(values)}


def variant(key, ranks, us, **more):
    """A variant "batch KEY, RANKS x STRATEGY" whose repetitions took these times."""
    series, times = f"{ranks} x {'ddp' if ranks > 1 else 'single'}", summary(us)
    median = times["median"]
    spread = statistics.median(abs(value - median) for value in us) or 1
    kept = [value for value in us if 0.6745 * abs(value - median) / spread <= 3.5]
    return {"name": f"batch {key}, {series}", "series": series, "key": key, "global_batch": key, "ranks": ranks,
            "strategy": series[4:], "precision": "fp32", "backend": "cpu", "params": 500, "step_time_us": times,
            "step_time_us_without_outliers": summary(kept), "outliers": [i for i, t in enumerate(us) if t not in kept],
            "samples_per_s": {name: value and key * 1e6 / value for name, value in times.items()},
            "bytes_per_device": {"total": 1000}, "flops_per_s_per_rank": 2e9 / times["mean"], "grad_norm": 1.5, "loss": 0.5,
            "step_parts_us": None, "collectives": [],
            "repetitions": [{"step_time_us": {"mean": t}, "params_xxh3": "00"} for t in us], **more}


def compare(v, one):
    """What follows from the two; intervals are those of the means."""
    own, other = v["step_time_us"], one["step_time_us"]
    ratio = other["mean"] / own["mean"]
    low, high = (other["low"] / own["high"], other["high"] / own["low"]) if own["low"] else (None, None)
    verdict = "undecided" if low is None or low <= 1 <= high or own["low"] <= 0 else "faster" if ratio > 1 else "slower"
    percent = 100 * (own["mean"] / other["mean"] - 1)
    test = {"verdict": verdict, "difference_percent": percent, "difference_low_percent": percent - 5,
            "difference_high_percent": percent + 5, "welch_p": 4.65e-8 if verdict != "undecided" else 0.4,
            "equivalence_p": 0.97, "margin_percent": 5}
    v["scaling"] = {"kind": "strong", "reference": one["name"], "speedup": ratio, "interval_low": low,
                    "interval_high": high if low is None or own["low"] > 0 else None,
                    "efficiency": ratio / v["ranks"] * one["ranks"]}
    v["against_reference"] = v["against_reference_without_outliers"] = test


def document(variants, **more):
    """The variants of several ranks are compared with the one of one rank of their batch and network."""
    for v in variants:
        one = next((w for w in variants if w["ranks"] == 1 and "failed" not in w and
                    (w["key"], w.get("model")) == (v["key"], v.get("model"))), None)
        if one and v is not one and "failed" not in v:
            compare(v, one)
    return {"command": "bench", "version": 1, "config": "made.yaml",
            "method": {"repetitions": 5, "repetitions_per_process": 1, "steps": 100, "warmup_steps": 10, "order_seed": 1,
                       "confidence": 0.95, "alpha": 0.05, "margin_percent": 5.0, "outlier_limit": 3.5,
                       "order": "randomised blocks: every round measures each variant once", "weak": False},
            "control": {"pairs": 0}, "void": False, "limits": {"cpu": "unknown", "gpu": "not used"}, "variants": variants,
            "answers": [{"verdict": "faster", "text": "**Two ranks pay**: 1.60x (1.58 to 1.62) at a global batch of 64."}],
            **more}


def two_variants(first=SLOW, second=QUICK):
    return document([variant(64, 1, first), variant(64, 2, second)])


# ---- documents as wide as their kind gets ----

RUN = {"created": "2026-11-22T02:03:04Z", "lockstep": "0.9.0", "network": "mlp-medium", "seed": 42, "load_before": 0.31,
       "load_after": 1.87, "processors": 64,
       "command_line": "lockstep bench examples/05-auto.yaml --batches 16,1024 --ranks-list 1,2 --repetitions 20 --validate "
                       "--html /home/someone/measurements/november/report.html"}
MACHINE = {"cpu_model": "AMD EPYC 9555 64-Core Processor", "cores": 64, "usable_cpus": 64, "memory_bytes": 824633720832,
           "kernel": "Linux 6.12.0-amd64", "blas": "oneDNN 3.7.0", "mpi": "Open MPI v5.0.7",
           "gpu": [{"name": "NVIDIA H200", "memory_bytes": 150754820096}] * 2}


def full(key, ranks, us, spread_percent, **more):
    """All that a variant can have: parts, a timeline, a loss curve, bytes, a prediction, collectives, validation."""
    comm = 0.2 * us if ranks > 1 else 0.0
    own = us - comm
    parts = (0.0, 0.3 * own, 0.4 * own, comm, 0.25 * own, 0.05 * own)
    tasks = (("compute", "forward", 0, 0.3 * own), ("compute", "backward", 0.3 * own, 0.7 * own),
             ("comm", "communication", 0.5 * own, 0.7 * own + comm), ("compute", "optimizer", 0.7 * own + comm, us))
    sizes = {"params": 1033792, "gradients": 1033792, "optimizer": 2067648, "data": 0, "inputs": 1956160,
             "activations": 35328, "other": 132, "total": 6126852}
    validation = {"verdict": "same network", "final_loss_difference": 2e-8, "grad_norm_correlation": 0.999999,
                  "weight_difference_mean_abs": 1.4e-7, "identical": False, "same_network": True}
    v = variant(key, ranks, [us * (1 + 0.01 * spread_percent * (i * 7 % 20 / 20 - 0.475)) for i in range(20)],
                step_parts_us=dict(zip(PARTS, parts)), step_parts_total_us=us, step_parts_source="measured",
                timeline=[dict(zip(("lane", "part", "start_us", "end_us"), task)) for task in tasks],
                curves={"loss": [0.4 + 2 * math.exp(-k / 20) + 0.02 * (k % 7) for k in range(110)]},
                predicted_step_time_us={"predicted": 1.1 * us, "low": 0.98 * us, "high": 1.3 * us, "error_percent": 10.0},
                collectives=[{"name": "gradients 0", "size_bytes": 1033792, "time_us": 282.54,
                              "algorithm_bw_bytes_per_s": 3.66e9, "bus_bw_bytes_per_s": 3.66e9}], **more)
    v["bytes_per_device"] = sizes
    if ranks > 1:
        v["validation"] = validation
    return v


def named(v, model, series):
    return {**v, "model": model, "series": series, "name": f"{model}, batch {v['key']}, {series}"}


def sweep():
    return document([named(full(batch, ranks, base * (1 + batch / 200) / (1 + 0.5 * r) + 60 * r, 4 + b), model,
                           f"{ranks} x {'ddp' if r else 'single'} fp32, peer access {'off' if r % 2 else 'on'}")
                     for model, base in (("mlp-medium-with-a-long-name", 90), ("mlp-large", 900))
                     for b, batch in enumerate((8, 16, 32, 64, 128, 256, 1024, 16384))
                     for r, ranks in enumerate((1, 2, 4, 8))], run=RUN, machine=MACHINE)


def failures():
    """All that can go wrong: variants that were not measured or gave up, outliers, another network."""
    reason = ("/home/someone/with/a/very/long/path/that/has/no/place/to/break/and/goes/on/and/on/and/on/model.yaml:12: no such "
              "<device> | 4 are needed, this machine has 2")
    lost = {"name": "batch 64, 4 x ddp", "series": "4 x ddp", "key": 64, "ranks": 4, "precision": "fp32", "failed": reason,
            "repetitions": []}
    d = document([variant(64, 1, SPIKED), variant(64, 2, [100, 300, 150, 210, 260], incomplete="took more than 600 s"), lost],
                 run=RUN, machine=MACHINE, incomplete="interrupted")
    d["variants"][1]["validation"] = {"verdict": "NOT the same network", "final_loss_difference": 0.4, "identical": False}
    d["answers"] = [{"verdict": "warning", "text": "**Incomplete**: measuring ended early"},
                    {"verdict": "undecided", "text": "**Not decided** whether two ranks pay: 0.98x (0.61 to 2.0)"}]
    return d


def study():
    import document as reading
    import study as tool
    d = document([named({**full(batch, 2 if k else 1, us * (1 + 0.4 * k), 6), **({"peer_access": peer} if k else {})}, model,
                        f"2 x ddp, peer access {peer}" if k else "1 x single")
                  for model, us, batches in (("mlp-medium", 85, (8, 16, 32, 64, 128)), ("mlp-large", 230, (4, 8, 16, 32, 64)))
                  for batch in batches for k, peer in enumerate(("", "on", "off"))], run=RUN, machine=MACHINE)
    return {**d, "study": tool.measure(d, reading.definition())}


def report(form, d):
    import blocks
    import page
    return getattr(page, form)(blocks.title_of(d), blocks.report_of(d))


def main(folder):
    for name, d in (("one", document([variant(64, 1, [320.9])])), ("sweep", sweep()), ("failures", failures()),
                    ("study", study()), ("two", document([full(16, 1, 320.9, 3), full(16, 2, 452.4, 3),
                                                          full(1024, 1, 12214, 3), full(1024, 2, 8663, 5)],
                                                         run=RUN, machine=MACHINE))):
        with open(os.path.join(folder, name + ".html"), "w", encoding="utf-8") as file:
            file.write(report("html", d))


if __name__ == "__main__":
    main(sys.argv[1])
