"""A page as Markdown with its pictures as files, for those who keep notes in a repository or on a blog."""

import json
import re
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal

from nanodyno.messages.language import Language
from nanodyno.report.figures import Figure
from nanodyno.report.html.drawing import svg_file
from nanodyno.report.page import Page, to_markdown

TextFormat = Literal["markdown", "jekyll"]
POSTS = "_posts"


@dataclass
class PictureFiles:
    """Numbers the pictures of a page, and says how each is linked to."""

    folder: Path
    stem: str
    link: str
    """With {} for the name of a file."""
    files: dict[Path, str] = field(default_factory=dict[Path, str])

    def __call__(self, figure: Figure) -> str:
        name = f"{self.stem}-{len(self.files) + 1}.svg"
        self.files[self.folder / name] = svg_file(figure)
        return self.link.replace("{}", name)


def document(page: Page, form: TextFormat, language: Language, made_at: datetime) -> str:
    """Without pictures: it has no place of its own."""
    return _text(page, form, language, made_at, None)


def documents(
    page: Page, form: TextFormat, language: Language, made_at: datetime, path: Path
) -> dict[Path, str]:
    """The file and its pictures, by where they belong: beside it, and of a post in its site's assets, since
    Jekyll does not publish what lies beside a post."""
    stem = re.sub(r"[^\w.-]+", "-", path.stem)
    if form == "jekyll" and path.absolute().parent.name == POSTS:
        site = path.parent.parent if path.parent.name == POSTS else path.absolute().parent.parent
        pictures = PictureFiles(
            site / "assets" / stem, stem, f'{{{{ "/assets/{stem}/{{}}" | relative_url }}}}'
        )
    else:
        pictures = PictureFiles(path.parent, stem, "{}")
    text = _text(page, form, language, made_at, pictures)
    return {path: text, **pictures.files}


def _text(
    page: Page, form: TextFormat, language: Language, made_at: datetime, pictures: PictureFiles | None
) -> str:
    body = to_markdown(page.sections, language, pictures)
    if language.direction == "rtl":
        body = f'<div dir="rtl" markdown="1">\n\n{body}\n</div>\n'
    return body if form == "markdown" else _front_matter(page, language, made_at, pictures) + body


def _front_matter(page: Page, language: Language, made_at: datetime, pictures: PictureFiles | None) -> str:
    is_post = pictures is not None and "assets" in pictures.folder.parts
    lines = {
        "layout": "post" if is_post else "page",
        "title": json.dumps(page.title, ensure_ascii=False),
        "lang": language.code,
        "date": f"{made_at:%Y-%m-%d %H:%M:%S %z}",
    }
    return "---\n" + "".join(f"{key}: {value}\n" for key, value in lines.items()) + "---\n\n"
