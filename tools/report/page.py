"""The two forms of a report's blocks. The HTML file needs nothing else: no scripts, no fonts, nothing fetched. Its
tables fold to cards on narrow screens (report.css), which takes their meaning from them, so roles say it again."""
import re

from document import shipped
from plot import escape

# The class of a verdict, which gives its colour: the first row that it begins with.
CLASSES = (("faster", "faster"), ("slower", "slower"), ("equivalent", "equivalent"), ("undecided", "undecided"),
           ("reference", "reference"), ("warning", "slower"), ("not measured", "undecided"), ("NOT", "slower"),
           ("identical", "faster"), ("same network", "faster"), ("holds", "faster"), ("does not hold", "slower"),
           ("not decided", "undecided"))


# ---- Markdown: everything but the charts ----


def plain(words):
    """One line, in which what a document says is no HTML; code is as it stands."""
    pieces = re.sub("[\0-\x1f]", " ", words).split("`")
    pieces[::2] = [re.sub(r"<(?=[A-Za-z/!?])", r"\\<", piece) for piece in pieces[::2]]
    return "`".join(pieces)


def markdown_row(cells):
    return "| " + " | ".join(plain(cell).replace("|", "\\|") for cell in cells) + " |"


def markdown_lines(block):
    kind = block["kind"]
    if kind == "heading":
        return [f"{'#' * block['level']} {plain(block['text'])}"]
    if kind == "text":
        return [plain(block["text"])]
    if kind == "table":
        return [markdown_row([name for name, _ in block["columns"]]),
                "|" + "".join("--:|" if of == "n" else "---|" for _, of in block["columns"]),
                *map(markdown_row, block["rows"])]
    if kind == "facts":
        return [f"- {name}: {plain(words)}" for name, words in block["items"]]
    return [f"- {plain(item[1] if kind == 'answers' else item)}" for item in block["items"]]


def markdown(title, blocks):
    parts = [f"# lockstep bench: {plain(title)}"]
    parts += ["\n".join(markdown_lines(block)) for block in blocks if block["kind"] != "chart"]
    return "\n\n".join(parts) + "\n\n"


# ---- HTML ----


def inline(words):
    """With **bold** and `code`; what is open at the end is closed."""
    out, opened = "", []
    for piece in re.split(r"(\*\*|`)", words):
        tag = {"**": "strong", "`": "code"}.get(piece)
        if not tag:
            out += escape(piece)
        elif opened[-1:] == [tag]:
            out += f"</{opened.pop()}>"
        elif tag not in opened:
            out += f"<{tag}>"
            opened.append(tag)
    return out + "".join(f"</{tag}>" for tag in reversed(opened))


def verdict_class(verdict):
    return next((name for start, name in CLASSES if verdict.startswith(start)), "undecided")


def table_cell(column, words):
    name, kind = column
    shown = inline(words)
    if kind == "v" and words:
        shown = f'<span class="verdict {verdict_class(words)}">{shown}</span>'
    label = f'data-label="{escape(name)}"'
    if kind == "h":
        return f'<th scope="row" role="rowheader" class="h" {label}>{shown}</th>'
    return f'<td role="cell" class="{kind}{"" if words else " none"}" {label}>{shown}</td>'


def table(block):
    columns = block["columns"]
    head = "".join(f'<th scope="col" role="columnheader" class="{kind}">{inline(name)}</th>' for name, kind in columns)
    body = "".join('<tr role="row">' + "".join(map(table_cell, columns, row)) + "</tr>\n" for row in block["rows"])
    return (f'<table role="table">\n<thead role="rowgroup"><tr role="row">{head}</tr></thead>\n'
            f'<tbody role="rowgroup">\n{body}</tbody></table>\n')


def html_block(block):
    kind = block["kind"]
    if kind == "heading":
        return f"<h{block['level']}>{inline(block['text'])}</h{block['level']}>\n"
    if kind == "text":
        return f"<p>{inline(block['text'])}</p>\n"
    if kind == "table":
        return table(block)
    if kind == "chart":
        return (f"<figure><figcaption><strong>{block['title']}</strong> {block['caption']}</figcaption>\n"
                f"{block['body']}</figure>\n")
    if kind == "facts":
        items = "".join(f"<div><dt>{name}</dt><dd>{inline(words)}</dd></div>\n" for name, words in block["items"])
        return f'<dl class="facts">\n{items}</dl>\n'
    items = [(verdict_class(item[0]), item[1]) if kind == "answers" else ("item", item) for item in block["items"]]
    lines = "".join(f'<li class="{name}">{inline(words)}</li>\n' for name, words in items)
    return f'<ul class="{kind}">\n{lines}</ul>\n'


def html(title, blocks, kind="bench"):
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<title>lockstep {kind}: {escape(title)}</title>
<style>
{shipped("report.css")}</style>
</head>
<body>
<main>
<p class="kind">lockstep {kind}</p>
<h1>{escape(title)}</h1>
{"".join(map(html_block, blocks))}</main>
</body>
</html>
"""
