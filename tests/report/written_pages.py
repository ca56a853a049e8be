"""Write every page and every finding in each language to build/pages, for a reader (`make pages`).

Not a test that pytest collects by itself: there is nothing to hold but a reader's judgement.
"""

from pathlib import Path

from tests.analysis.test_sentences import TABLE
from tests.report.test_pages import Pages, pages

from nanodyno.messages.findings import words
from nanodyno.messages.language import LANGUAGES

__all__ = ["pages"]
FOLDER = Path(__file__).parents[2] / "build" / "pages"


def test_write(pages: Pages, tmp_path: Path) -> None:
    found = [
        each
        for code, sentence in TABLE.items()
        for each in sentence.holds.findings(tmp_path / code)
        if each.code == code
    ]
    FOLDER.mkdir(parents=True, exist_ok=True)
    for language in LANGUAGES.values():
        sentences = "\n".join(f"[{each.code}] {words(each, language)}" for each in found)
        text = "\n\n".join([*pages(language), sentences])
        (FOLDER / f"{language.code}.txt").write_text(text, encoding="utf-8")
