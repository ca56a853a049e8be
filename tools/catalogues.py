"""Brings the catalogues up to date with the messages in the code: `make catalogues`.

New messages come in without a translation, those that are gone leave; a new file, empty, is filled with
all of them. Nothing is guessed: no translation is taken over for a similar message.
"""

from io import BytesIO
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po, write_po

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "src" / "nanodyno" / "report" / "catalogues"
SOURCES = ROOT / "src"
KEYWORDS = {
    "say": None,
    "message": None,
    "say_in": ((1, "c"), 2),
    "say_plural": (1, 2),
    "Plural": (1, 2),
}
HEADER = """msgid ""
msgstr ""
"Language: {locale}\\n"
"MIME-Version: 1.0\\n"
"Content-Type: text/plain; charset=utf-8\\n"
"Content-Transfer-Encoding: 8bit\\n"
"Plural-Forms: {plural_forms}\\n"

"""
WIDTH = 110


def messages() -> Catalog:
    found = Catalog()
    for name, _, message, _, context in extract_from_dir(SOURCES, [("**.py", "python")], keywords=KEYWORDS):
        found.add(message, locations=[(f"src/{name}", 0)], context=context)
    return found


def update(path: Path, found: Catalog) -> list[str]:
    """What is left to translate."""
    catalogue = read_po(BytesIO(path.read_bytes()), locale=path.stem)
    catalogue.update(found, no_fuzzy_matching=True)
    body = BytesIO()
    write_po(body, catalogue, width=WIDTH, omit_header=True, ignore_obsolete=True, include_lineno=False)
    header = HEADER.format(locale=path.stem, plural_forms=catalogue.plural_forms)
    path.write_text(header + body.getvalue().decode("utf-8").strip() + "\n", encoding="utf-8")
    untranslated = (each for each in catalogue if each.id and not _is_whole(each.string))
    return [each.id if isinstance(each.id, str) else each.id[0] for each in untranslated]


def _is_whole(string: object) -> bool:
    """All of the forms, where there are several."""
    return all(string) if isinstance(string, tuple | list) else bool(string)


if __name__ == "__main__":
    every = messages()
    for file in sorted(FOLDER.glob("*.po")):
        left = update(file, every)
        print(f"{file.name}: {len(left)} of {len(every)} messages are to be translated")
        for text in left:
            print(f"  {text}")
