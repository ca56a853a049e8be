"""Bring the text files of all languages in line with the English one: `make messages`.

A message that is new comes in with its English text, to be translated; one that is gone leaves; all stand in
the order of their ids. The English file is written by hand.
"""

import re
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "src" / "nanodyno" / "messages"


def entries(source: str) -> dict[str, str]:
    """By id, as they are written; the header's id is empty."""
    return {
        re.findall(r'^msgid "(.*)"$', entry, re.MULTILINE)[0]: entry for entry in source.strip().split("\n\n")
    }


def written(found: dict[str, str]) -> str:
    return "\n\n".join(found[message] for message in sorted(found)) + "\n"


def update(path: Path, english: dict[str, str]) -> list[str]:
    """The ids that are to be translated."""
    known = entries(path.read_text(encoding="utf-8"))
    path.write_text(
        written({message: known.get(message, text) for message, text in english.items()}), "utf-8"
    )
    return sorted(english.keys() - known.keys())


if __name__ == "__main__":
    source = FOLDER / "en.po"
    every = entries(source.read_text(encoding="utf-8"))
    source.write_text(written(every), encoding="utf-8")
    for file in sorted(FOLDER.glob("*.po")):
        for message in update(file, every):
            print(f"{file.name}: {message} is to be translated")
