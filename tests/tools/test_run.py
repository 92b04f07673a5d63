"""The report of a watched training, from made event logs."""
import unittest

import made  # finds the tool
from test_report import Tags
import page
import run

STEP_US = 1000.0


def line(kind, t, **members):
    return {"kind": kind, "t": t, "rank": 0, **members}


def life(begin, from_step, to_step, ended, rank=0):
    """A process that does 100 steps in a second, of which it computes half."""
    lines = [line("start", begin, step=from_step, ranks=2, host="a&b", strategy="ddp", backend="cpu", precision="fp32",
                  device="cpu", params=10, total_steps=400, predicted_us=1100.0)]
    for i in range(1, (to_step - from_step) // 100 + 1):
        lines.append(line("record", begin + i, step=from_step + 100 * i, total_steps=400, loss_mean=1 / i, step_s=0.5 * i,
                          step_time_us=STEP_US, gpu_energy_j=1000.0 + 3600.0 * i, forward_us=300.0, skipped_steps=1))
    return lines + ([line("end", begin + i, status="LS_OK", text="ok")] if ended else [])


def document(*lives):
    return {"command": "report", "version": 1, "dir": "runs/<a>",
            "ranks": [{"rank": 0, "lines": [each for lines in lives for each in lines]}]}


def fact(blocks, name):
    return dict(blocks[0]["items"]).get(name)


class Run(unittest.TestCase):
    def table(self, blocks, column):
        """The table that has the column, and the names of its columns."""
        tables = [b for b in blocks if b["kind"] == "table" and column in [name for name, _ in b["columns"]]]
        self.assertEqual(len(tables), 1, column)
        return tables[0], [name for name, _ in tables[0]["columns"]]

    def test_a_whole_run(self):
        _, blocks = run.report_of(document(life(1e6, 0, 400, True)))
        self.assertEqual(fact(blocks, "state"), "ok")
        self.assertEqual(fact(blocks, "steps"), "400 of 400")
        self.assertEqual(fact(blocks, "goodput"), "50.0 %")
        self.assertEqual(fact(blocks, "restarts"), "0")
        self.assertEqual(fact(blocks, "predicted by the plan"), "1.10 ms, +10.0 %")
        self.assertTrue(fact(blocks, "energy of GPUs").startswith("0.003"))  # three intervals of 3,600 J

    def test_steps_done_twice_are_not_good(self):
        """300 steps, killed, on from 200 to 400: 100 steps and the second between are lost."""
        _, blocks = run.report_of(document(life(1e6, 0, 300, False), life(1e6 + 4, 200, 400, True)))
        self.assertEqual(fact(blocks, "goodput"), "33.3 %")  # 1.0 + 1.0 of 6 s
        self.assertEqual(fact(blocks, "restarts"), "1")
        table, columns = self.table(blocks, "done again")
        self.assertEqual(table["rows"][0][columns.index("done again")], "100")
        self.assertEqual(table["rows"][0][columns.index("idle")], "1.00 s")
        self.assertIn("killed", table["rows"][0][columns.index("end")])

    def test_html_is_one_file(self):
        alert = line("alert", 1e6 + 2, alert="slow", status="raised", when="step_time_ratio > 1", value=1.5)
        html = page.html(*run.report_of(document(life(1e6, 0, 400, True) + [alert])), kind="run")
        for outside in ("http:", "https:", "src=", "href=", "url(", "<script", "@import", "nan", "<a>"):
            self.assertNotIn(outside, html)
        self.assertIn("<title>lockstep run: runs/&lt;a&gt;</title>", html)
        self.assertEqual(Tags(html).count["figure"], 3)  # loss, time, parts
        self.assertIn("step_time_ratio &gt; 1", html)

    def test_time_faults_and_money(self):
        """Killed after 300 steps and 3 s; on from 200 after a second. 2 devices at 36 per hour: a cent a second each."""
        lines = [life(1e6, 0, 300, False), life(1e6 + 4, 200, 400, True)]
        for each in lines:
            each[0]["cost"] = {"currency": "EUR", "device_hour": 36.0, "power_w": 0, "price_kwh": 1000.0}
        made_of = document(*lines)
        made_of["supervised"] = {"lives": [
            {"first_step": 0, "last_step": 300, "ended_unix_s": 1e6 + 3.5, "why": "",
             "fault": {"cause": "died", "text": "rank 1 ended by <signal> 9", "rank": 1, "noticed_unix_s": 1e6 + 3.2}},
            {"first_step": 200, "last_step": 400, "first_step_unix_s": 1e6 + 5, "ended_unix_s": 1e6 + 6, "why": ""}]}
        _, blocks = run.report_of(made_of)
        # 6 s of two devices, and 3 intervals of 3,600 J (2 before, 1 after) at 1,000 a kWh
        self.assertEqual(fact(blocks, "cost"), "3.12 EUR")
        spent, _ = self.table(blocks, "share")
        self.assertEqual([row[:3] for row in spent["rows"]],
                         [["steps that count", "2.00 s", "33.3 %"], ["steps done again", "0.500 s", "8.3 %"],
                          ["no process ran", "1.00 s", "16.7 %"], ["starting, reading data, ending", "2.50 s", "41.7 %"]])
        faults, columns = self.table(blocks, "steps again")
        row = dict(zip(columns, faults["rows"][0]))
        self.assertEqual([row["cause"], row["rank"], row["down"], row["steps again"], row["cost"], row["money"]],
                         ["died", "1", "1.50 s", "100", "1.60 s", "0.03 EUR"])
        self.assertIn("rank 1 ended by &lt;signal&gt; 9", page.html(*run.report_of(made_of), kind="run"))

    def test_predictions_beside_measurements_and_a_timeline(self):
        lines = life(1e6, 0, 400, True)
        lines[0]["need_bytes"] = 2e6
        lines[-2]["memory_bytes"] = 30e6
        lines.append(line("timeline", 1e6 + 5, step=9, step_time_us=30.0, lanes=["compute", "communication"],
                          tasks=[["a <b>", 0, 1, 0.0, 10.0], ["exchange", 1, 3, 10.0, 20.0], ["odd"], [3, 0, 0, 0, 0]]))
        title, blocks = run.report_of(document(lines))
        compared, _ = self.table(blocks, "predicted")
        self.assertEqual([row[1:] for row in compared["rows"]], [["1.10 ms", "1.00 ms", "+10.0 %"], ["2.0 MB without libraries", "30.0 MB with libraries", ""]])
        html = page.html(title, blocks, kind="run")
        self.assertIn("a &lt;b&gt;: 10.0 us", html)
        self.assertIn("communication", html)
        self.assertEqual(Tags(html).count["figure"], 4)

    def test_strange_logs_make_no_exception(self):
        for lines in ([], [line("record", None, step="x")], [line("start", "now")], [{"kind": 3}], [line("end", 1)],
                      [line("start", 1), line("record", 2, step=1, step_s=1, loss_mean=1)]):
            run.report_of({"ranks": [{"rank": 0, "lines": lines}]})
        self.assertIsNone(run.report_of({"ranks": "none"}))


if __name__ == "__main__":
    unittest.main()
