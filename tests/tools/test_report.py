"""The report of made and of recorded documents."""
import copy
import html.parser
import json
import os
import subprocess
import sys
import unittest

from made import MACHINE, QUICK, RUN, SPIKED, document, report, two_variants, variant
import blocks
import page
import text

HERE = os.path.dirname(os.path.abspath(__file__))
TOOL = os.path.join(HERE, "../../tools/report")


class Tags(html.parser.HTMLParser):
    """Every tag is closed in order; counts them, and keeps the text."""

    def __init__(self, page):
        super().__init__()
        self.open, self.count, self.words = [], {}, []
        self.feed(page)
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        self.count[tag] = self.count.get(tag, 0) + 1
        self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.count[tag] = self.count.get(tag, 0) + 1

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        self.words.append(data)


class Report(unittest.TestCase):
    def test_html_is_one_file(self):
        html_page = report("html", two_variants(SPIKED))
        for outside in ("http:", "https:", "src=", "href=", "url(", "<script", "@import", "nan"):
            self.assertNotIn(outside, html_page)
        self.assertEqual(Tags(html_page).count["figure"], 3)

    def test_report_does_not_say_whether_ranks_pay(self):
        """The report began with its method, and its title was "Benchmark"."""
        markdown, html_page = report("markdown", two_variants()), report("html", two_variants())
        self.assertTrue(markdown.startswith("# lockstep bench: made.yaml, batch 64, 1 and 2 ranks\n\n- **Two ranks pay**: "))
        self.assertIn("<title>lockstep bench: made.yaml, batch 64, 1 and 2 ranks</title>", html_page)
        self.assertLess(html_page.index("<strong>Two ranks pay</strong>"), html_page.index("<table"))

    def test_titles(self):
        for wanted, variants in (("made.yaml, batches 8, 16, 32 and 64, 1 rank", [variant(b, 1, QUICK) for b in (8, 64, 32, 16)]),
                                 ("made.yaml, batches 8 to 128, 1 rank", [variant(8 << i, 1, QUICK) for i in range(5)]),
                                 ("a and b, batch 8, 2 ranks", [variant(8, 2, QUICK, model=m) for m in "ab"]),
                                 ("5 networks, batch 8, 1 rank", [variant(8, 1, QUICK, model=m) for m in "abcde"])):
            self.assertIn(f"# lockstep bench: {wanted}\n", report("markdown", document(variants)))

    def test_traced_parts(self):
        d = two_variants()
        traced = "Traced: a captured step"
        self.assertNotIn(traced, report("markdown", d))
        d["variants"][1].update(step_parts_source="traced", step_parts_total_us=300.0,
                                step_parts_us=dict(input=1.0, forward=40.0, backward=60.0, exposed_comm=90.0,
                                                   optimizer=20.0, rest=89.0))
        markdown = report("markdown", d)
        self.assertIn("2 x ddp (traced) | 1.00 | 40.0 | 60.0 | 90.0 | 20.0 | 89.0 | 30.0 % |", markdown)
        self.assertIn(traced, markdown)

    def test_incomplete_and_failed_variants(self):
        d = two_variants()
        d["variants"][1]["incomplete"] = "took too long"
        d["variants"].append({"name": "batch 64, 4 x ddp", "key": 64, "ranks": 4, "failed": "no such <device>",
                              "repetitions": []})
        markdown, html_page = report("markdown", d), report("html", d)
        self.assertIn("- **batch 64, 2 x ddp** has only 5 repetitions: took too long\n", markdown)
        self.assertIn("- **batch 64, 4 x ddp** not measured: no such \\<device>\n", markdown)
        self.assertIn("| not measured | batch 64, 4 x ddp |", markdown)
        self.assertIn("not measured: no such &lt;device&gt;", html_page)

    def test_names_out_of_documents_are_text(self):
        hostile = '</td><script>a|b\n# forged\x1b[31m `c` **d** "e" &amp;'
        d = two_variants()
        for v in d["variants"]:
            v.update(name=hostile, series=hostile, failed=hostile)
        d["variants"].append(variant(8, 1, QUICK, name=hostile, model=hostile, curves={"loss": [1.0, 0.5]}))
        d.update(config=hostile, run={**RUN, "command_line": hostile}, machine={**MACHINE, "cpu_model": hostile},
                 answers=[{"verdict": hostile, "text": hostile}])
        html_page, markdown = report("html", d), report("markdown", d)
        self.assertNotIn("script", Tags(html_page).count)
        self.assertNotIn("\x1b", html_page + markdown)
        self.assertIn("&lt;/td&gt;&lt;script&gt;a|b# forged", html_page)
        for line in markdown.split("\n"):
            self.assertFalse(line.startswith("# forged"), line)
            code = line.split("`")
            self.assertNotIn("<script", "".join(code[::2]).replace("\\<script", ""), line)
            if line.startswith("| ") and "script" in line:
                self.assertNotIn("a|b", line)

    def test_predictions(self):
        d = two_variants()
        d["variants"][1]["predicted_step_time_us"] = {"predicted": 130.0, "low": 120.0, "high": 140.0, "error_percent": 4.0}
        self.assertIn("| 130 (120 to 140) | +4.0 % |", report("markdown", d))
        self.assertIn("predicted 130 (120 to 140)", report("html", d))

    def test_report_numbers_nobody_reads(self):
        """Cells said "- to -", bytes and p had digits that nobody reads."""
        d = document([variant(1024, 1, [12214]), variant(1024, 2, [8663])])
        d["variants"][1]["bytes_per_device"] = {"total": 6099332}
        markdown = report("markdown", d)
        self.assertIn("| undecided | batch 1024, 2 x ddp | 1.41x | 8.66 | 118,204 | 70 % | 6.1 MB |", markdown)
        for never in ("- to -", "6099332", "nan"):
            self.assertNotIn(never, markdown)
        for shown, wanted in ((text.p_value(4.65e-08), "< 0.001"), (text.size(6099332), "6.1 MB"),
                              (text.around(12214.4, 12163.4, 12265.4), "12,214 ± 51"),
                              (text.around(320.94, 317.74, 324.14), "320.9 ± 3.2"),
                              (text.around(12214.4, 11163.4, 13265.4), "12,200 ± 1,100"),
                              (text.span(331.04, 310.21, 352.02), "331 (310 to 352)"),
                              (text.within(612567, 520000, 700000), "613,000"), (text.count(-1234567.25, 1), "-1,234,567.2"),
                              (text.time(1240), "1.24 ms"), (text.ratio(1.41, 1.28, float("inf")), "1.41x (above 1.28)"),
                              (text.listed(["1", "2", "3"]), "1, 2 and 3"), (text.listed([]), "")):
            self.assertEqual(shown, wanted)

    def test_report_does_not_say_where_it_was_measured(self):
        d = two_variants()
        d.update(machine={"cpu_model": "AMD EPYC", "cores": 2, "usable_cpus": 2, "memory_bytes": 6671249408},
                 run={**RUN, "command_line": "lockstep bench a.yaml", "load_before": 5.5, "load_after": 1.5, "processors": 2})
        for wanted in ("AMD EPYC, 2 cores, 2 processors to use, 6.7 GB of memory", "2026-11-22 02:03 UTC",
                       "`lockstep bench a.yaml`", "lockstep 0.9.0", "42 of training, 1 of the order",
                       "5.50 before, 1.50 after"):
            self.assertIn(wanted, report("markdown", d))

    def test_charts_without_legend(self):
        """Rings around points were explained nowhere, the repetitions' axis had no numbers, loss, memory and timeline had
        no charts."""
        d = two_variants(SPIKED)
        d["variants"][0].update(
            predicted_step_time_us={"predicted": 190.0, "low": 180.0, "high": 210.0}, curves={"loss": [1.0, 0.5, 0.25]},
            timeline=[{"lane": "compute", "part": "forward", "start_us": 0.0, "end_us": 50.0}],
            validation={"same_network": True}, bytes_per_device={"params": 1000, "total": 1000})
        html_page = report("html", d)
        for wanted in ("predicted by lockstep plan, with its 90 % interval", "outlier: modified z-score above 3.5",
                       "measured: mean and its 95 % interval", "the reference (1x)", ">repetition</text>", "Training loss",
                       "Bytes per device", "Timeline of a step", "1 of 5: number 5, +347.8 %"):
            self.assertIn(wanted, html_page)

    def test_intervals_below_the_scale_have_no_end(self):
        """An interval that leaves a logarithmic scale had a mark at its end, as if it ended there."""
        d = document([variant(8, 1, QUICK), variant(8, 2, [2000, 90000, 3000, 2500, 4000])])
        self.assertLess(d["variants"][1]["step_time_us"]["low"], 0)
        html_page = report("html", d)
        chart = html_page[html_page.index("<strong>Step time</strong>"):]
        self.assertIn("(logarithmic)", chart)
        self.assertNotIn('x1="0.00%" x2="0.00%"', chart)

    def test_any_document_makes_a_report(self):
        """Every member of a document in turn is gone, or is no longer what it was."""
        d = two_variants(SPIKED)
        d["variants"][1].update(
            validation={"verdict": "same network", "identical": False}, curves={"loss": [1.0, 0.5]},
            timeline=[{"lane": "compute", "part": "forward", "start_us": 0.0, "end_us": 50.0}],
            collectives=[{"name": "gradients 0", "size_bytes": 64}], gpu={"busy_percent": 3.0})
        d["study"] = {"tables": [{"label": "l", "rows": [{"batch": 8, "one": {"samples_per_s": {"mean": 3}}, "two": {},
                                                          "speedup": {"value": 0.5, "low": 0.4}, "published": {}}]}],
                      "timelines": [{"batch": 8, "one": {"forward": 1.0}}],
                      "conclusions": [{"statement": "s", "findings": [{"verdict": "holds"}]}]}
        made = 0
        for part in places(d):
            for key in list(part):
                before = part[key]
                for broken in (None, [1, "x"], "x", -1e300, 10**400, "gone"):
                    part[key] = broken
                    if broken == "gone":
                        del part[key]
                    found = blocks.report_of(d)
                    self.assertTrue(page.markdown(blocks.title_of(d), found) and page.html("title", found))
                    made += 1
                part[key] = before
        self.assertGreater(made, 700)


def places(value):
    """Every object of a document; of an array the last."""
    if isinstance(value, list) and value:
        yield from places(value[-1])
    if isinstance(value, dict):
        yield value
        for member in list(value.values()):
            yield from places(member)


def run(form, stdin):
    return subprocess.run([sys.executable, "-I", "-B", TOOL, form], input=stdin, capture_output=True, check=False)


class Recorded(unittest.TestCase):
    def test_forms(self):
        with open(os.path.join(HERE, "recorded/sweep.json"), "rb") as file:
            recorded = json.loads(file.read())
        whole = copy.deepcopy(recorded)
        whole["answers"] = []
        made = run("html", json.dumps(whole).encode())
        self.assertEqual((made.returncode, made.stderr), (0, b""))
        self.assertGreater(Tags(made.stdout.decode()).count["svg"], 40)
        self.assertEqual(run("check", b"").returncode, 0)
        for code, message, form, stdin in (
                (4, "made by an earlier program", "html", json.dumps(recorded)), (4, "is not JSON", "html", "[1"),
                (4, "is not JSON", "html", "[" * 100000), (4, "is not JSON", "html", ""), (4, "not a document", "html", "[]"),
                (4, "not a document", "study", '{"command": "train"}'), (2, "usage", "pdf", "{}"),
                (4, "version 9", "markdown", json.dumps({**whole, "version": 9})),
                (4, "not a document", "markdown", json.dumps({**whole, "variants": []}))):
            end = run(form, stdin.encode())
            self.assertEqual((end.returncode, end.stdout), (code, b""), (form, stdin[:40]))
            self.assertTrue(end.stderr.decode().startswith("report: error: ") and message in end.stderr.decode())


if __name__ == "__main__":
    unittest.main()
