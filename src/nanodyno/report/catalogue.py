"""Catalogues as they lie on disk, and what Babel knows of a locale; it is loaded where it is asked."""

import gettext
from datetime import date
from functools import cache
from importlib.resources import files
from io import BytesIO

FOLDER = "catalogues"
DIGITS = "latn"


def catalogue_locales() -> list[str]:
    """Of the files there are, compiled or not."""
    names = (each.name for each in (files("nanodyno.report") / FOLDER).iterdir())
    return sorted({name.rpartition(".")[0] for name in names if name.endswith((".po", ".mo"))})


@cache
def translations(locale: str) -> gettext.NullTranslations:
    """Compiled in an installed package; in a checkout, where it may change, from its source each time."""
    folder = files("nanodyno.report") / FOLDER
    compiled = folder / f"{locale}.mo"
    if compiled.is_file():
        return gettext.GNUTranslations(BytesIO(compiled.read_bytes()))
    return gettext.GNUTranslations(BytesIO(compile_catalogue((folder / f"{locale}.po").read_bytes(), locale)))


def compile_catalogue(source: bytes, locale: str) -> bytes:
    """A .po file as a .mo file."""
    from babel.messages.mofile import write_mo
    from babel.messages.pofile import read_po

    compiled = BytesIO()
    write_mo(compiled, read_po(BytesIO(source), locale=locale, abort_invalid=True))
    return compiled.getvalue()


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
