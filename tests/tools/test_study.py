"""The study from made measurements: conclusions with every verdict forced, the tables, the published figures; and the
answers of its rules."""
import unittest

from made import PARTS, document, report, variant
import document as reading
import study
import thresholds

DEFINITION = reading.definition()
MEDIUM, LARGE = "mlp-medium", "mlp-large"
YES, NO, OPEN = "holds", "does not hold", "not decided"
RULES = (
    (258432, 128, 2, "single_gpu", "Model too small"),
    (258432, 128, 1, "single_gpu", "not available"),
    (999999, 100000, 2, "single_gpu", "Model too small"),
    (1000000, 127, 2, "single_gpu", "insufficient batch"),
    (4999999, 128, 2, "single_gpu", "insufficient batch"),
    (4999999, 4096, 2, "evaluate_multi_gpu", "may benefit"),
    (5000000, 4096, 2, "benchmark_required", "empirical testing"),
    (6885376, 64, 2, "benchmark_required", "empirical testing"),
    (9999999, 8, 2, "benchmark_required", "empirical testing"),
    (10000000, 63, 2, "single_gpu", "Increase batch size"),
    (10000000, 64, 2, "multi_gpu", "benefits from parallelization"),
    (120000000, 256, 4, "multi_gpu", "benefits from parallelization"),
)


def side(cell, ranks, us, spread, repetitions, traced):
    model, peer, batch, _, _, comm = cell
    offsets = (-1, -0.5, 0, 0.5, 1)[:repetitions]
    v = variant(batch, ranks, [us * (1 + 0.01 * spread * offset) for offset in offsets], model=model)
    if ranks > 1 and peer:
        v["peer_access"] = peer
    exposed = comm if ranks > 1 else 0
    rest = us - exposed
    if comm >= 0:
        parts = (0, 0.3 * rest, 0.3 * rest, exposed, 0.3 * rest, 0.1 * rest)
        scale, mean = traced or 1, v["step_time_us"]["mean"]
        v.update(step_parts_us={name: scale * value for name, value in zip(PARTS, parts)}, step_parts_total_us=scale * us,
                 step_parts_source="traced" if traced else "measured", traced={"step_time_us": scale * mean})
    return v


def study_of(*cells, spread=1, repetitions=5, traced=0, definition=DEFINITION, crossovers=()):
    """A cell: network, peer access, batch, us of one device and of two, exposed us (negative: parts are not known)."""
    variants = {}
    for cell in cells:
        variants.setdefault((cell[0], cell[2]), side(cell, 1, cell[3], spread, repetitions, traced))
        variants[cell] = side(cell, 2, cell[4], spread, repetitions, traced)
    d = {**document(list(variants.values())), "crossovers": list(crossovers)}
    return {**d, "study": study.measure(d, definition)}


def verdict(d, name, finding=0):
    findings = next(c["findings"] for c in d["study"]["conclusions"] if c["id"] == name)
    return findings[finding]["verdict"] if finding < len(findings) else None


class Conclusions(unittest.TestCase):
    def expect(self, name, wanted, *cells, **how):
        self.assertEqual(verdict(study_of(*cells, **how), name), wanted, (name, cells))

    def test_slower(self):
        self.expect("medium-slower", YES, (MEDIUM, None, 8, 100, 130, 40), (MEDIUM, None, 16, 100, 120, 40))
        self.expect("medium-slower", NO, (MEDIUM, None, 8, 100, 130, 40), (MEDIUM, None, 16, 100, 80, 40))
        self.expect("large-slower", OPEN, (LARGE, None, 8, 100, 130, 40), (LARGE, None, 16, 100, 100.1, 40))
        self.expect("large-slower", OPEN, (MEDIUM, None, 8, 100, 130, 40))  # not measured
        self.expect("under-10-million", YES, (MEDIUM, None, 8, 100, 130, 40), (LARGE, None, 8, 100, 130, 40))
        self.expect("under-10-million", NO, (MEDIUM, None, 8, 100, 130, 40), (LARGE, None, 8, 100, 70, 40))
        # the same means, but nothing is shown
        self.expect("medium-slower", OPEN, (MEDIUM, None, 8, 100, 130, 40), (MEDIUM, None, 16, 100, 120, 40), spread=60)

    def test_batches(self):
        self.expect("medium-batch", YES, (MEDIUM, None, 128, 100, 150, 40), (MEDIUM, None, 8, 100, 120, 40))
        self.expect("medium-batch", NO, (MEDIUM, None, 128, 100, 110, 40), (MEDIUM, None, 8, 100, 120, 40))
        self.expect("medium-batch", OPEN, (MEDIUM, None, 128, 100, 120.2, 40), (MEDIUM, None, 8, 100, 120, 40))
        self.expect("large-batch", YES, (LARGE, None, 4, 100, 150, 40), (LARGE, None, 64, 100, 120, 40))
        self.expect("large-batch", NO, (LARGE, None, 4, 100, 120, 40), (LARGE, None, 64, 100, 150, 40))
        self.expect("large-batch", OPEN, (LARGE, None, 4, 100, 120, 40))
        self.expect("large-32", YES, (LARGE, None, 4, 100, 120, 40), (LARGE, None, 32, 100, 105, 40),
                    (LARGE, None, 64, 100, 110, 40))
        self.expect("large-32", NO, (LARGE, None, 32, 100, 105, 40), (LARGE, None, 64, 100, 90, 40))
        self.expect("large-32", OPEN, (LARGE, None, 4, 100, 120, 40), (LARGE, None, 64, 100, 90, 40))
        self.expect("break-even-128", NO, (LARGE, None, 64, 100, 90, 40), (LARGE, None, 256, 100, 70, 40))
        self.expect("break-even-128", YES, (LARGE, None, 64, 100, 110, 40), (LARGE, None, 256, 100, 70, 40))
        self.expect("break-even-128", OPEN, (LARGE, None, 64, 100, 110, 40))

    def test_families(self):
        """From which batch on two devices pay, against what the study said of each network."""
        families = reading.definition("families")
        lstm, resnet, bert = "lstm", "resnet18", "bert-small"
        for name, wanted, *cells in (
                ("lstm-never", YES, (lstm, "on", 32, 100, 130, 40), (lstm, "on", 256, 100, 120, 40)),
                ("lstm-never", NO, (lstm, "on", 32, 100, 130, 40), (lstm, "on", 256, 100, 80, 40)),
                ("lstm-never", OPEN, (lstm, "on", 32, 100, 130, 40), (lstm, "on", 256, 100, 100.1, 40)),
                ("lstm-loses", YES, (lstm, "on", 32, 100, 130, 40)),
                ("lstm-loses", NO, (lstm, "on", 32, 100, 150, 40)),
                ("resnet18-from-64", YES, (resnet, "on", 16, 100, 120, 40), (resnet, "on", 64, 100, 80, 40)),
                ("resnet18-from-64", NO, (resnet, "on", 16, 100, 80, 40), (resnet, "on", 64, 100, 80, 40)),
                ("resnet18-from-64", NO, (resnet, "on", 64, 100, 120, 40), (resnet, "on", 256, 100, 80, 40)),
                ("resnet18-from-64", OPEN, (resnet, "on", 16, 100, 120, 40)),
                ("resnet18-efficiency", YES, (resnet, "on", 64, 100, 71, 4), (resnet, "on", 16, 100, 120, 4)),
                ("resnet18-efficiency", NO, (resnet, "on", 64, 100, 55, 4)),
                ("bert-small-pays", YES, (bert, "on", 8, 100, 120, 4), (bert, "on", 32, 100, 80, 4)),
                ("bert-small-pays", NO, (bert, "on", 8, 100, 120, 4))):
            self.assertEqual(verdict(study_of(*cells, definition=families), name), wanted, (name, cells))
        # A search that ended before its largest batch does not know the best efficiency.
        to_128 = [{"model": resnet, "searched_to": 128}]
        for wanted, *cells in ((OPEN, (resnet, "on", 64, 100, 90, 4)),
                               (NO, (resnet, "on", 64, 100, 90, 4), (resnet, "on", 128, 100, 85, 4))):
            self.assertEqual(verdict(study_of(*cells, definition=families, crossovers=to_128), "resnet18-efficiency"), wanted)
        said = study_of((resnet, "on", 16, 100, 120, 40), (resnet, "on", 64, 100, 80, 40), definition=families)["study"]
        figures = next(c for c in said["conclusions"] if c["id"] == "resnet18-from-64")["findings"][0]["figures"]
        self.assertRegex(figures, r"^pays from batch 64 on \(1\.25x .*\); 0\.83x .* at 16$")

    def test_efficiency(self):
        self.expect("efficiency-45", YES, (LARGE, None, 4, 100, 120, 40), (MEDIUM, None, 8, 100, 130, 40))
        self.expect("efficiency-45", NO, (LARGE, None, 4, 100, 120, 40), (MEDIUM, None, 8, 100, 105, 40))
        self.expect("efficiency-45", OPEN, (LARGE, None, 4, 90, 100, 40))
        self.expect("utilisation-falls", YES, (LARGE, None, 4, 100, 60, 4))
        self.expect("utilisation-falls", NO, (LARGE, None, 4, 100, 40, 4))
        self.expect("utilisation-falls", OPEN, (LARGE, None, 4, 100, 50, 4))

    def test_parts(self):
        self.expect("communication-reason", YES, (MEDIUM, None, 8, 100, 130, 40))
        self.expect("communication-reason", NO, (MEDIUM, None, 8, 100, 130, 20))
        self.expect("communication-reason", OPEN, (MEDIUM, None, 8, 100, 80, 20))
        self.expect("communication-reason", OPEN, (MEDIUM, None, 8, 100, 130, -1))
        self.expect("communication-ms", YES, (MEDIUM, None, 8, 1e5, 2e5, 7e4), (LARGE, None, 8, 1e5, 2e5, 9e4))
        self.expect("communication-ms", NO, (MEDIUM, None, 8, 1e5, 2e5, 7e4), (LARGE, None, 8, 1e5, 2e5, 7e4))
        self.expect("communication-ms", OPEN, (MEDIUM, None, 8, 1e5, 2e5, -1))
        # computing is 0.9 of what is not communication
        self.expect("communication-medium", YES, (MEDIUM, None, 8, 100, 260, 157.5))
        self.expect("communication-medium", NO, (MEDIUM, None, 8, 100, 260, 60))
        self.expect("communication-large", YES, (LARGE, None, 8, 100, 190, 90))
        self.expect("communication-large", NO, (LARGE, None, 8, 100, 190, 20))
        self.expect("compute-halves", YES, (LARGE, None, 8, 100, 90, 40))
        self.expect("compute-halves", NO, (LARGE, None, 8, 100, 90, 10))
        self.expect("optimizer-halves", NO, (LARGE, None, 8, 100, 90, 10))
        self.expect("optimizer-halves", OPEN, (LARGE, None, 8, 100, 90, -1))

    def test_traced_parts_are_scaled(self):
        """By their own times 25 us of communication, traced as 50, would be more than the 30 us that two devices lose."""
        self.expect("communication-reason", YES, (MEDIUM, None, 8, 100, 130, 40), traced=2)
        self.expect("communication-reason", NO, (MEDIUM, None, 8, 100, 130, 25), traced=2)
        self.expect("communication-ms", YES, (MEDIUM, None, 8, 1e5, 2e5, 7e4), (LARGE, None, 8, 1e5, 2e5, 9e4), traced=2)
        self.expect("communication-ms", NO, (MEDIUM, None, 8, 1e5, 2e5, 3.5e4), (LARGE, None, 8, 1e5, 2e5, 9e4), traced=2)
        self.expect("compute-halves", YES, (LARGE, None, 8, 100, 90, 40), traced=2)

    def test_few_repetitions(self):
        """Means without intervals decide nothing below three repetitions."""
        for count, computing, link in ((2, OPEN, OPEN), (3, YES, YES)):
            self.expect("compute-halves", computing, (LARGE, None, 8, 100, 90, 40), repetitions=count)
            self.expect("direct-link", link, (LARGE, "off", 64, 100, 130, 80), (LARGE, "on", 64, 100, 90, 20),
                        repetitions=count)
        self.expect("communication-ms", OPEN, (MEDIUM, None, 8, 1e5, 2e5, 7e4), repetitions=2)

    def test_links(self):
        off = (LARGE, "off", 64, 100, 130, 80)
        self.expect("topology", YES, off, (LARGE, "on", 64, 100, 90, 20))
        self.expect("topology", NO, (LARGE, "off", 64, 100, 80, 80), (LARGE, "on", 64, 100, 90, 20))
        self.expect("topology", OPEN, (LARGE, "off", 64, 100, 90, 80), (LARGE, "on", 64, 100, 90, 20))
        self.expect("topology", OPEN, (LARGE, "off", 64, 100, 90, 80))
        self.expect("direct-link", YES, off, (LARGE, "on", 64, 100, 90, 20))
        self.expect("direct-link", NO, off, (LARGE, "on", 64, 100, 90, 60))
        self.expect("near-linear", NO, (LARGE, "on", 64, 100, 90, 20))
        self.expect("near-linear", YES, (LARGE, "on", 64, 100, 52, 2))
        self.expect("near-linear", OPEN, (LARGE, "off", 64, 100, 52, 2))
        self.expect("parameters-decide", NO, off, (LARGE, "on", 64, 100, 90, 20), (MEDIUM, "on", 64, 100, 130, 20))
        self.expect("parameters-decide", YES, (LARGE, "on", 64, 100, 90, 20), (MEDIUM, "on", 64, 100, 130, 20))
        self.expect("parameters-decide", OPEN, (LARGE, "on", 64, 100, 90, 20))

    def test_memory(self):
        for more, wanted in ((1e7, YES), (-1e7, NO)):
            d = study_of((LARGE, None, 8, 100, 90, 40))
            for v in d["variants"]:
                v["gpu"] = {"memory_used_bytes": 1e9 + (more if v["ranks"] == 2 else 0)}
            self.assertEqual(verdict({"study": study.measure(d, DEFINITION)}, "memory-grows"), wanted)
        self.expect("memory-grows", OPEN, (LARGE, None, 8, 100, 90, 40))
        d = study_of((LARGE, None, 8, 100, 90, 40), (LARGE, None, 16, 100, 90, 40))
        for v, used in zip(d["variants"], (5e8, 6e8, 5e8, 4e8)):  # one device, two; the next batch
            v["gpu"] = {"memory_used_bytes": used}
        self.assertEqual(verdict({"study": study.measure(d, DEFINITION)}, "memory-grows"), OPEN)


class Tables(unittest.TestCase):
    def test_tables(self):
        """Peer access off and on are two tables and two findings each; batches ascend; figures stand in their rows."""
        d = study_of((MEDIUM, "on", 64, 100, 80, 10), (MEDIUM, "off", 64, 100, 130, 40), (MEDIUM, "off", 8, 50, 70, 30),
                     (MEDIUM, "off", 1000, 500, 300, 30))
        on, off = d["study"]["tables"]
        self.assertEqual((on["peer_access"], off["peer_access"]), ("on", "off"))
        first, middle, last = off["rows"]
        self.assertEqual((first["batch"], middle["batch"], last["batch"]), (8, 64, 1000))
        self.assertEqual(first["published"]["one_samples_per_s"], 1234)
        self.assertEqual(first["published"]["two_samples_per_s_margin"], 38)
        self.assertIsNone(last["published"])
        self.assertAlmostEqual(first["one"]["samples_per_s"]["mean"], 8e6 / 50, 6)
        self.assertAlmostEqual(first["speedup"]["value"], 50 / 70)
        self.assertAlmostEqual(first["efficiency_percent"]["value"], 50 * 50 / 70)
        self.assertLess(first["speedup"]["low"], 50 / 70)
        self.assertEqual([verdict(d, "medium-slower", i) for i in range(3)], [NO, NO, None])
        self.assertEqual([verdict(d, "topology", i) for i in range(2)], [YES, None])
        t = d["study"]["timelines"][0]
        self.assertEqual(t["published"]["two"]["exposed_comm"], 5.2)
        self.assertAlmostEqual(t["two"]["exposed_comm"], 0.01)

    def test_missing_devices(self):
        """Two devices that are not there: the reason stands in the table, the other cells are judged."""
        cells = (MEDIUM, "off", 8, 100, 130, 40), (MEDIUM, "off", 16, 100, 130, 40)
        d = study_of(*cells)
        lost = d["variants"][-1]
        for key in ("scaling", "against_reference", "step_time_us"):
            del lost[key]
        lost.update(failed="this machine has 1", repetitions=[])
        d["study"] = study.measure(d, DEFINITION)
        self.assertEqual(verdict(d, "medium-slower"), OPEN)
        markdown, html = report("markdown", d), report("html", d)
        self.assertIn("not measured: this machine has 1", markdown)
        self.assertIn("1,234 ± 45", markdown)
        self.assertIn("Where the study's conclusions hold", html)
        self.assertNotIn("nan", html)
        self.assertIn("medium: slower at 8; not measured at 16", markdown)

    def test_timeline_of_an_earlier_document(self):
        """Exposed communication was called communication."""
        d = study_of((MEDIUM, None, 64, 100, 130, 40))
        for t in d["study"]["timelines"]:
            for parts in (t["one"], t["two"], *t["published"].values()):
                parts["communication"] = parts.pop("exposed_comm")
        self.assertIn("| the study, two devices | 1.8 | 1.7 | 5.2 | 0.6 | 0.1 | 9.4 |", report("markdown", d))

    def test_published(self):
        """The published tables agree with themselves: speed-up and efficiency follow from the rates."""
        for network in DEFINITION["networks"]:
            self.assertEqual(len(network["rows"]), 5)
            for row in network["rows"]:
                ratio = row["two_samples_per_s"] / row["one_samples_per_s"]
                self.assertLess(abs(ratio - row["speedup"]), 0.011)
                self.assertLess(abs(50 * ratio - row["efficiency_percent"]), 1.01)


class Rules(unittest.TestCase):
    def answer(self, params, batch, devices, memory_bytes=0):
        question = {"params": params, "batch": batch, "devices": devices, "memory_bytes": memory_bytes, "inputs": 10,
                    "priced_strategy": "ddp", "priced_devices": 2, "priced_us": 12.34}
        table = thresholds.table(question, DEFINITION["thresholds"])
        self.assertIn("\n  priced                       ddp on 2 devices, 12.3 us a step (predicted)\n", table)
        return thresholds.answer(question, DEFINITION["thresholds"])

    def test_thresholds_answer_as_the_study_does(self):
        for params, batch, devices, strategy, reasoning in RULES:
            a = self.answer(params, batch, devices)
            self.assertEqual(a["strategy"], strategy, (params, batch, devices))
            self.assertIn(reasoning, a["reasoning"])
            self.assertTrue(0.5 <= a["confidence"] <= 0.95)
            self.assertAlmostEqual(a["model_analysis"]["total_memory_mb"], params * 16 / 1048576)
        a = self.answer(120000000, 64, 2, 1000000000)
        self.assertEqual(a["strategy"], "single_gpu")
        self.assertIn("Memory requirements (1.9GB) exceed safe limits", a["reasoning"])
        self.assertIn("estimated 70%", self.answer(4999999, 4096, 2)["reasoning"])


if __name__ == "__main__":
    unittest.main()
