"""Report long sentences and words that we do not use, in pages, help texts and error messages.

python tools/plain_words.py PATH [PATH ...]   # .md, .py and .po files, or folders (docs/log is left out)

Of a Markdown page all prose is read: code blocks are not, a cell of a table is a text of its own, and
`code` counts as one word. Of a Python file the texts that a user meets are read: help texts, docstrings of
commands, settings and error messages. Of a .po file (name the English one) the translations are
read. docs/words.md says which words we use instead.
"""

import ast
import re
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

LONGEST = 25
# Each is a pattern for whole words, in any case.
NEVER = (
    "foretold",
    "foretells?",
    "untold",
    "(?:is|are) told",
    "corners?",
    "schooling",
    "lessons?",
    "errands?",
    "entrants?",
    "sentry",
    "wishes",
    "by heart",
    "is no number",
    "gone on with",
    "goes on to the bit",
    "what serves",
    "rate of work",
    "what cannot be said",
    "to be known",
    "its doing",
    "beyond_hand",
)
NEVER_PATTERN = re.compile(rf"(?<!\w)(?:{'|'.join(NEVER)})(?!\w)", re.IGNORECASE)

ERRORS = {"NanodynoError", "RunFailed", "ConfigError", "Diverged", "BadInput", "EmptySplit", "NoDataset"}
SETTINGS = {"setting"}  # config/fields.py: the first argument is help
ABBREVIATIONS = ("e.g", "i.e", "etc", "vs", "cf", "al", "approx", "no", "fig", "mr", "dr", "st")
ENDS = re.compile(r"[.!?][\"')\]*_”]*(?=\s|$)")
FENCE = re.compile(r"\s*(```|~~~)")
NEW_BLOCK = re.compile(r"\s*(?:[-*+] |\d+[.)] |#+ |>|\||$)")
MARKER = re.compile(r"^\s*(?:[-*+] |\d+[.)] |#+ |> ?)+")


class Text(NamedTuple):
    line: int
    words: str


class Fault(NamedTuple):
    path: Path
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.reason}"


def faults(path: Path) -> list[Fault]:
    """All of one file."""
    readers = {".py": python_texts, ".po": message_texts}
    texts = readers.get(path.suffix, markdown_texts)(path.read_text(encoding="utf-8"), path)
    return [Fault(path, text.line, reason) for text in texts for reason in faults_of(text.words)]


def faults_of(text: str) -> Iterator[str]:
    """Reasons, one each: a word that we do not use, a sentence of more than 25 words."""
    for found in NEVER_PATTERN.finditer(text):
        yield f'"{found[0]}": see docs/words.md'
    for sentence in sentences(text):
        count = len(words(sentence))
        if count > LONGEST:
            yield f'{count} words: "{sentence[:60]}..."'


def sentences(text: str) -> list[str]:
    """Split at a full stop before white space, unless it ends an abbreviation or an initial."""
    plain = " ".join(text.split())
    pieces, begin = [], 0
    for end in ENDS.finditer(plain):
        before = plain[begin : end.start()].rsplit(" ", 1)[-1].lstrip("(\"'“")
        if before.lower() in ABBREVIATIONS or re.fullmatch("[A-Z]", before):
            continue
        pieces.append(plain[begin : end.end()].strip())
        begin = end.end()
    rest = plain[begin:].strip()
    return [piece for piece in (*pieces, rest) if piece]


def words(sentence: str) -> list[str]:
    """What a reader counts: signs alone (-, =, |) are none."""
    return [word for word in sentence.split() if re.search(r"\w", word)]


def markdown_texts(source: str, _: Path) -> Iterator[Text]:
    """Paragraphs, list items, headings and cells of tables."""
    block: list[str] = []
    began, fence = 0, ""
    for number, line in enumerate([*source.splitlines(), ""], start=1):
        mark = FENCE.match(line)
        inside = bool(fence)
        if mark and (not fence or mark[1] == fence):
            fence = "" if fence else mark[1]
        is_code = inside or bool(mark) or (not block and line.startswith("    "))
        if block and (is_code or NEW_BLOCK.match(line)):
            yield Text(began, " ".join(block))
            block = []
        if is_code or not line.strip():
            continue
        if line.lstrip().startswith("|"):
            yield from (Text(number, cell) for cell in cells(line))
            continue
        if not block:
            began = number
        block.append(prose(MARKER.sub("", line)))


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", prose(row)) if re.search(r"\w", cell)]


def prose(line: str) -> str:
    """A line without Markdown: code and addresses are one word each, a link is its text."""
    line = re.sub(r"(`+).+?\1", "code", line)
    line = re.sub(r"!\[([^\]]*)\]\([^)]*\)", r"\1", line)
    line = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line)
    line = re.sub(r"<https?:[^>]*>|https?:\S+", "address", line)
    return re.sub(r"</?\w[^>]*>|[*]{1,2}", "", line)


def message_texts(source: str, _: Path) -> Iterator[Text]:
    """Every form of every message; a place is one word."""
    from babel.messages.pofile import read_po

    for message in read_po(BytesIO(source.encode())):
        if message.id:
            forms = message.string if isinstance(message.string, tuple | list) else [message.string]
            yield from (Text(message.lineno or 0, prose(form or "")) for form in forms)


def python_texts(source: str, path: Path) -> Iterator[Text]:
    """Help, docstrings of commands and error messages; a value in a text is one word."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            yield from _of_call(node)
        if path.parent.name == "cli" and isinstance(node, ast.FunctionDef):
            yield from _of_docstring(node)


def _of_call(call: ast.Call) -> Iterator[Text]:
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    nodes = [each.value for each in call.keywords if each.arg == "help"]
    if name in ERRORS:
        nodes += [*call.args, *(each.value for each in call.keywords if each.arg in ("message", "hint"))]
    elif name in SETTINGS:
        nodes += call.args[:1]
    for node in nodes:
        for text in _strings(node):
            yield Text(node.lineno, prose(text))


def _strings(node: ast.expr) -> Iterator[str]:
    """Whole texts: a choice between two is two, and what a call returns is not looked into."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(str(each.value) if isinstance(each, ast.Constant) else "value" for each in node.values)
    elif isinstance(node, ast.IfExp):
        yield from _strings(node.body)
        yield from _strings(node.orelse)
    elif isinstance(node, ast.BinOp):
        yield from _strings(node.left)
        yield from _strings(node.right)


def _of_docstring(function: ast.FunctionDef) -> Iterator[Text]:
    """Of a public function of cli/, where it is the help of a command."""
    docstring = "" if function.name.startswith("_") else ast.get_docstring(function) or ""
    for paragraph in docstring.split("\n\n"):
        if not paragraph.startswith("nanodyno "):  # an example
            yield Text(function.lineno, prose(paragraph))


def pages_of(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    found = [*path.rglob("*.md"), *path.rglob("*.py")]
    return sorted(each for each in found if "log" not in each.relative_to(path).parts[:-1])


def main() -> None:
    paths = [page for name in sys.argv[1:] for page in pages_of(Path(name))]
    if not paths:
        sys.exit(__doc__)
    found = [fault for path in paths for fault in faults(path)]
    for fault in found:
        print(fault)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
