"""Reports of `lockstep bench` documents, and of a training (`lockstep report`). `bench --markdown FILE`, `--html FILE` and `--study` start it; by hand:

    python3 share/lockstep/tools/report FORM <DOCUMENT >OUTPUT

FORM        OUTPUT
markdown    the report as Markdown
html        the report as one HTML file with charts as inline SVG; nothing is fetched, no scripts
study       the document with "study" added, by the definition in study.json: tables, figures, conclusions
families    the same by families.json
thresholds  what the study's rules (study.json) answer to a question of `lockstep plan --policy thresholds`: a table;
            thresholds-json: a document
run         a document of `lockstep report` (the event logs of a watched training) as one HTML file
check       nothing: exit code 0 says that the tool can run here

DOCUMENT is what `lockstep bench --output` writes, version 1 (docs/bench.md). Reports need the members "answers",
"scaling.interval_low" and "validation.verdict", which documents of earlier programs lack: `lockstep bench --from OLD
--output NEW` adds them. Of all other members any may be missing or of another type: what depends on it is left out.
Text out of documents is escaped.

Needs Python 3.8, nothing but its standard library. Exit codes: 0 well; 1 an error of the tool; 2 usage, or Python is
too old; 4 DOCUMENT is not JSON, not of this version, or needs --from. Messages go to stderr: "report: error: ...".
"""
import json
import sys
import traceback

VERSION = 1
FORMS = ("markdown", "html", "study", "families", "thresholds", "thresholds-json", "run", "check")


class Refused(Exception):
    """(exit code, message)"""


def read():
    try:
        return json.loads(sys.stdin.buffer.read().decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Refused(4, f"the document is not JSON: {error}") from error


def read_document():
    document = read()
    if not isinstance(document, dict) or document.get("command") != "bench" or not isinstance(
            document.get("variants"), list) or not (document["variants"] or document.get("crossovers")):
        raise Refused(4, "not a document of lockstep bench --output")
    if document.get("version") != VERSION:
        raise Refused(4, f"version {document.get('version')}, this tool reads {VERSION}")
    if "answers" not in document:
        raise Refused(4, "made by an earlier program: lockstep bench --from FILE --output NEW brings it up to date")
    return document


def make(form):
    import blocks  # not before the version of Python is known
    import document
    import page
    import run
    import study
    import thresholds
    if form in ("markdown", "html"):
        found = read_document()
        return getattr(page, form)(blocks.title_of(found), blocks.report_of(found))
    if form in ("study", "families"):
        found = read_document()
        return json.dumps({**found, "study": study.measure(found, document.definition(form))})
    rules = document.definition()["thresholds"]
    if form == "thresholds":
        return thresholds.table(read(), rules)
    if form == "thresholds-json":
        return json.dumps(thresholds.answer(read(), rules))
    if form == "run":
        made = run.report_of(read())
        if not made:
            raise Refused(4, "the event logs have no line of a training")
        return page.html(*made, kind="run")
    if form == "check":
        return ""
    raise Refused(2, f"usage: {' | '.join(FORMS)}; the document is read from stdin")


def main(argv):
    try:
        if sys.version_info < (3, 8):
            raise Refused(2, "Python 3.8 is needed, this is " + sys.version.split()[0])
        sys.stdout.buffer.write(make(argv[1] if len(argv) == 2 else "").encode("utf-8", "replace"))
        sys.stdout.buffer.flush()
        return 0
    except Refused as refused:
        print("report: error: " + refused.args[1], file=sys.stderr)
        return refused.args[0]
    except Exception as error:  # what `lockstep bench` shows is the first line
        print(f"report: error: {type(error).__name__}: {error}", file=sys.stderr)
        traceback.print_exc()
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
