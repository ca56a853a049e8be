"""The pages of docs/: links and anchors lead somewhere, each page is short, in the index and in the site."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
TASKS = sorted(DOCS.glob("*.md"))
PAGES = [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]
LARGEST_BYTES = {"README.md": 8192, "measurements.md": 25_600}


def text_of(page: Path) -> str:
    """Without code, in which nothing is a link or a heading."""
    source = page.read_text(encoding="utf-8")
    return re.sub(r"(?ms)^(```|~~~).*?^\1", "", source)


def links_of(page: Path) -> list[str]:
    found = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]+`", "code", text_of(page)))
    return [each for each in found if not re.match(r"[a-z]+:", each)]


def anchors_of(page: Path) -> set[str]:
    """As GitHub and the site both make them: of letters, digits, - and _, in small letters."""
    headings = re.findall(r"(?m)^#+ (.+)$", text_of(page))
    plain = [re.sub(r"[^\w\s-]", "", each.replace("`", "")).strip().lower() for each in headings]
    return {re.sub(r"\s", "-", each) for each in plain} | set(
        re.findall(r'<a id="([^"]+)"', page.read_text("utf-8"))
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_and_anchor_leads_somewhere(page: Path) -> None:
    astray: list[str] = []
    for link in links_of(page):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            astray.append(link)
    assert astray == []


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: str(page.relative_to(DOCS)))
def test_no_page_of_the_site_links_out_of_it(page: Path) -> None:
    targets = [(page.parent / link.partition("#")[0]).resolve() for link in links_of(page)]
    assert [each for each in targets if DOCS not in (each, *each.parents)] == []


def test_an_anchor_that_is_nowhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Speed beside `nanoGPT`, now\n\n```sh\n# no heading\n```\n\n[here](#speed) `[no](link)`\n"
    )
    assert anchors_of(page) == {"speed-beside-nanogpt-now"}
    assert links_of(page) == ["#speed"]


@pytest.mark.parametrize("page", [*TASKS, ROOT / "ARCHITECTURE.md"], ids=str)
def test_every_page_is_short(page: Path) -> None:
    assert page.stat().st_size <= LARGEST_BYTES.get(page.name, 8192)


def test_the_readme_is_short() -> None:
    assert (ROOT / "README.md").stat().st_size <= LARGEST_BYTES["README.md"]


def test_every_page_is_in_the_index_and_in_the_site() -> None:
    names = {page.name for page in TASKS} - {"README.md"}
    assert names <= set(links_of(DOCS / "README.md"))
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    assert names <= set(re.findall(r": (\S+\.md)$", nav, re.M))


@pytest.mark.parametrize("page", TASKS, ids=lambda page: page.name)
def test_every_page_of_a_task_begins_with_its_commands(page: Path) -> None:
    if page.name not in {"README.md", "measurements.md", "words.md"}:
        assert re.match(r"# .+\n\n```sh\n", page.read_text(encoding="utf-8"))
