"""The study's rules: thresholds on parameters and batch with its own constants and strategy names (study.json), for
comparison with what is priced. The question: params, batch, inputs (numbers of a sample), devices, memory_bytes (of a
device, 0 = not known), priced_strategy, priced_devices, priced_us."""
import math

from text import plural


def efficiency(params, batch, rules):
    """The study's estimate: its base cost of the exchange against half of the computing time. It leaves that time open;
    here it is that of one measured network, in proportion to parameters and batch."""
    exchange, measured = rules["exchange_ms"], rules["computing"]
    communication_ms = exchange["base"] + exchange["million_parameters"] * params / 1e6 + exchange["sample"] * batch
    compute_ms = measured["ms"] * (params / measured["parameters"]) * (batch / measured["batch"])
    return compute_ms / (compute_ms / 2 + communication_ms) / 2


def applies(rule, facts):
    """A rule's conditions: "batch_at_least": 64, "parameters_below": 1e6, "efficiency_above": 0.6."""
    compare = {"_below": lambda a, b: a < b, "_above": lambda a, b: a > b, "_at_least": lambda a, b: a >= b}
    return all(compare[ending](facts[key[:-len(ending)]], limit) for key, limit in rule.items()
               for ending in compare if key.endswith(ending))


def answer(question, rules):
    params, batch = question["params"], question["batch"]
    used_bytes = 16 * params + 4 * batch * question["inputs"]
    asked = applies(rules["efficiency_asked"], {"parameters": params, "batch": batch})
    facts = {"parameters": params, "batch": batch, "devices": question["devices"],
             "memory": used_bytes / question["memory_bytes"] if question["memory_bytes"] > 0 else 0,
             "efficiency": efficiency(params, batch, rules) if asked else 0}
    rule = next(rule for rule in rules["rules"] if applies(rule, facts))
    # The study states a confidence without a formula: here the distance to the nearest threshold on parameters, in
    # powers of two, from 0.5 (on it) to 0.95.
    nearest = min(abs(math.log2(params / threshold)) for threshold in rules["parameters"]) if params > 0 else math.inf
    return {"command": "plan", "policy": "thresholds", "strategy": rule["strategy"],
            "reasoning": rule["reasoning"].format(gb=used_bytes * 1e-9, percent=100 * facts["efficiency"]),
            "confidence": min(0.5 + 0.225 * nearest, 0.95),
            "model_analysis": {"total_parameters": float(params), "total_memory_mb": params * 16 / 2**20},
            "estimated_efficiency": facts["efficiency"] or None,
            "priced_strategy": question["priced_strategy"], "priced_devices": question["priced_devices"]}


def table(question, rules):
    a, devices = answer(question, rules), question["priced_devices"]
    memory_mb = a["model_analysis"]["total_memory_mb"]
    return "".join(f"  {name:<28} {words}\n" for name, words in (
        ("the study's rules say", a["strategy"]), ("because", a["reasoning"]),
        ("confidence", f"{a['confidence']:.2f} (distance to the nearest threshold; the study gives no formula)"),
        ("its model analysis",
         f"{question['params']} parameters, {memory_mb:.1f} MB with gradients and optimizer state"),
        ("priced",
         f"{a['priced_strategy']} on {devices} device{plural(devices)}, {question['priced_us']:.1f} us a step (predicted)")))
