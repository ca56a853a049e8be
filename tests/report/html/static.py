"""What can be known of a page without a browser."""

import re
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "hr", "img", "input"}
LOADS = {"src", "href", "srcset", "data", "action", "poster", "background"}


class Checked(HTMLParser):
    """Reads a page strictly: what is opened is closed in order, ids are unique, nothing is loaded."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.faults: list[str] = []
        self.ids: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.referred: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        self.faults += [f"never closed: {tag}" for tag in self.open]
        self.faults += [f"twice: {each}" for each in self.ids if self.ids.count(each) > 1]
        self.faults += [f"refers to nothing: {each}" for each in self.referred if each not in self.ids]
        self.faults += [f"loads {found}" for found in re.findall(r"@import|url\((?!#)[^)]*\)", text)]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if len(given) != len(attrs):
            self.faults.append(f"an attribute twice: {tag} {attrs}")
        self.tags.append((tag, given))
        self.faults += [f"loads: {tag} {name}" for name in given if name in LOADS]
        self.faults += [f"an event in markup: {name}" for name in given if name.startswith("on")]
        if "id" in given:
            self.ids.append(given["id"])
        self.referred += given.get("aria-labelledby", "").split()
        self.referred += re.findall(r"url\(#([^)]+)\)", " ".join(given.values()))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"closed out of order: {tag}")

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data)

    def all_of(self, tag: str) -> list[dict[str, str]]:
        return [given for name, given in self.tags if name == tag]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())
