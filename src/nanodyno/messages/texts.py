"""The texts of a language by their ids, from its .po file, and what Babel knows of a locale.

The files are gettext's, so that Poedit, Weblate and the like open them; a message's id stands where others
have the English sentence, and English is one file among the others. They are read as they lie: what they
hold is little, and a checkout never shows an old text.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from gettext import c2py
from importlib.resources import files
from importlib.resources.abc import Traversable

DIGITS = "latn"
_LINE = re.compile(r'(?:(msgid|msgstr(?:\[\d\])?|msgid_plural) )?"(.*)"')
_ESCAPE = re.compile(r'\\(["\\n])')
_PLURALS = re.compile(r"plural=(.+?);")


@dataclass(frozen=True)
class Texts:
    """Of one language. A message whose form depends on a count has as many texts as there are forms."""

    forms: Mapping[str, tuple[str, ...]]
    form_of: Callable[[int], int]


def locales() -> list[str]:
    return sorted(each.name.removesuffix(".po") for each in _folder() if each.name.endswith(".po"))


def _folder() -> Iterator[Traversable]:
    return files("nanodyno.messages").iterdir()


@cache
def texts(locale: str) -> Texts:
    forms = dict(_entries((files("nanodyno.messages") / f"{locale}.po").read_text(encoding="utf-8")))
    plurals = _PLURALS.search(forms.pop("")[0])
    assert plurals is not None, f"{locale}.po has no Plural-Forms"
    return Texts(forms, c2py(plurals[1]))


def _entries(source: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Of each entry its id and its texts; a text may be written over several lines."""
    for entry in source.split("\n\n"):
        fields: dict[str, str] = {}
        name = ""
        for line in entry.splitlines():
            found = _LINE.fullmatch(line)
            if found is None:
                assert line.startswith("#"), line
                continue
            name = found[1] or name
            fields[name] = fields.get(name, "") + _ESCAPE.sub(_unescaped, found[2])
        if fields:
            yield fields["msgid"], tuple(text for key, text in fields.items() if key.startswith("msgstr"))


def _unescaped(found: re.Match[str]) -> str:
    return "\n" if found[1] == "n" else found[1]


@cache
def symbols(locale: str) -> tuple[str, str, str]:
    """Decimal mark, thousands separator, minus sign."""
    from babel import numbers

    return (
        numbers.get_decimal_symbol(locale, numbering_system=DIGITS),
        numbers.get_group_symbol(locale, numbering_system=DIGITS),
        numbers.get_minus_sign_symbol(locale, numbering_system=DIGITS),
    )


def written_date(day: date, locale: str) -> str:
    from babel.dates import format_date

    return format_date(day, "long", locale=locale)
