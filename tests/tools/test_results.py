"""docs/results.md is what the documents in results/ give, and fits in 200 lines."""
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/report"))
import results  # noqa: E402


class Results(unittest.TestCase):
    def test_the_page_is_made_from_the_documents(self):
        page = results.page(ROOT / "results")
        self.assertEqual(page, (ROOT / "docs/results.md").read_text(encoding="utf-8"),
                         "run: python3 tools/report/results.py results >docs/results.md")
        self.assertLessEqual(page.count("\n"), 200)

    def test_a_document_without_a_commit_is_refused(self):
        with self.assertRaisesRegex(ValueError, "commit"):
            results.table({"version": 1, "question": "q", "command": "c", "machine": "m", "date": "d", "columns": [], "rows": []})


if __name__ == "__main__":
    unittest.main()
