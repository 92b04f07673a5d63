"""docs/results.md from the documents in results/: one table for each question.

    python3 tools/report/results.py results >docs/results.md

A document is a JSON object: version (1), question, command, machine, date, commit, columns (names), rows (lists of text, one for
each column) and, where it helps to read the rows, note (one or two sentences). Documents are ordered by file name.
"""
import json
import pathlib
import sys

MEMBERS = ("question", "command", "machine", "date", "commit", "columns", "rows")
HEAD = """# Results

Each table answers one question with measurements. Its first line names the machine, the date, the commit and the command.
Machines differ: repeat a measurement on yours before you rely on it. `tools/report/results.py` makes this page from the
documents in `results/`.

The presets mlp-medium (258,432 parameters), mlp-large (6,885,376) and mlp-extreme (120,083,968) are called medium, large
and extreme.
"""


def table(document):
    missing = [name for name in MEMBERS if name not in document]
    if document.get("version") != 1 or missing:
        raise ValueError(f"version {document.get('version')}, without {missing}")
    columns, rows = document["columns"], document["rows"]
    for row in rows:
        if len(row) != len(columns):
            raise ValueError(f"{len(row)} cells for {len(columns)} columns: {row}")
    lines = [columns, ["---"] * len(columns)] + rows
    text = "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
    about = f"{document['machine']}, {document['date']}, commit {document['commit']}: `{document['command']}`"
    note = f". {document['note']}" if "note" in document else ""
    return f"\n## {document['question']}\n{about[0].upper()}{about[1:]}{note}\n\n{text}\n"


def page(folder):
    found = [HEAD]
    for path in sorted(pathlib.Path(folder).glob("*.json")):
        try:
            found.append(table(json.loads(path.read_text(encoding="utf-8"))))
        except ValueError as error:
            raise SystemExit(f"results: {path}: {error}") from error
    return "".join(found)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: results.py FOLDER")
    sys.stdout.write(page(sys.argv[1]))
