"""A report to keep or to send: where it is written, checked before the work that leads to it, and opened."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from nanodyno.errors import NanodynoError

if TYPE_CHECKING:
    from nanodyno.messages.language import Language
    from nanodyno.report.page import Page

ReportForm = Literal["markdown", "jekyll"]
Html = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Write the report as one self-contained HTML file."),
]
Open = Annotated[bool, typer.Option("--open", help="Open the HTML report in the browser.")]
FormatOption = Annotated[
    ReportForm | None,
    typer.Option(
        "--format", help="Write the report as Markdown, with front matter for Jekyll, to stdout or --out."
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="FILE", help="Write the --format report to FILE, and its charts beside it as SVG."
    ),
]


@dataclass(frozen=True)
class ReportOptions:
    """What a user wants besides the page in the terminal."""

    html: Path | None = None
    opened: bool = False
    form: ReportForm | None = None
    out: Path | None = None
    lang: str | None = None
    json: bool = False

    def __post_init__(self) -> None:
        """Refuses now what could not be written later, after minutes of work perhaps."""
        if self.out is not None and self.form is None:
            raise NanodynoError("--out needs a --format", "add --format markdown, or --html FILE for a page")
        if self.json and self.form is not None and self.out is None:
            raise NanodynoError(
                "--json and --format cannot both write to stdout",
                "write the report to a file with --out FILE",
            )
        for option, path in (("--html", self.html), ("--out", self.out)):
            if path is not None:
                refuse_unwritable(path, option)

    @property
    def takes_stdout(self) -> bool:
        return self.form is not None and self.out is None


def refuse_unwritable(path: Path, option: str) -> None:
    folder = path.absolute().parent
    if path.is_dir():
        raise NanodynoError(f"{option} {path}: this is a folder", "name a file in it")
    if not folder.is_dir():
        raise NanodynoError(f"{option} {path}: no such folder", "create the folder first")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise NanodynoError(f"{option} {path}: no permission to write there", "choose another place")


def deliver(wanted: ReportOptions, page_in: "Callable[[Language], Page]") -> None:
    """Writes, prints and opens what is wanted; tells where it lies on stderr."""
    if wanted.html is None and wanted.form is None and not wanted.opened:
        return
    from nanodyno.messages.language import language_for

    language, made_at = language_for(wanted.lang, os.environ), datetime.now(UTC)
    page = page_in(language)
    if wanted.form is not None:
        from nanodyno.report.jekyll import document, documents

        if wanted.out is None:
            typer.echo(document(page, wanted.form, language, made_at), nl=False)
        else:
            _write(documents(page, wanted.form, language, made_at, wanted.out))
            _tell(wanted.out)
    if wanted.html is not None or wanted.opened:
        from nanodyno.report.html.document import to_html

        path = wanted.html or _passing_place()
        _write({path: to_html(page, language, made_at)})
        _tell(path)
        if wanted.opened:
            _open(path)


def _passing_place() -> Path:
    from tempfile import mkdtemp

    return Path(mkdtemp(prefix="nanodyno-")) / "report.html"


def _write(files: dict[Path, str]) -> None:
    for path, text in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
        except OSError as error:
            raise NanodynoError(
                f"{path} cannot be written: {error.strerror}", "choose another place"
            ) from None


def _tell(path: Path) -> None:
    typer.echo(f"report: {path}", err=True)


def _open(path: Path) -> None:
    import webbrowser

    if not webbrowser.open(path.absolute().as_uri()):
        typer.echo("no browser was found: open the file yourself", err=True)
