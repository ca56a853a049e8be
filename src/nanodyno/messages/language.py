"""The reader's language: which one, its texts by their ids, its numbers and dates.

A text has named {places}; what stands in a place is formatted already. Babel is loaded only for numbers and
dates that are not English.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from nanodyno.messages.texts import locales, symbols, texts, written_date

Direction = Literal["ltr", "rtl"]
ENVIRONMENT = ("LC_ALL", "LC_MESSAGES", "LANG")
"""As other programs read them: the first that is set and not empty."""
NO_LANGUAGE = frozenset({"", "c", "posix"})
UNSPACED = frozenset({"ja", "zh-Hant"})
OPEN, CLOSE = "\u2068", "\u2069"
_WORD = r"[-+±~<>]{0,2}[A-Za-z0-9`][!-'*-~±]*"
_LATIN = re.compile(rf"{_WORD}(?: ?(?:{_WORD}|\([ !-'*-~±]+\)))*")
"""Words, with what is in brackets only where both of them are Latin's."""
_LOOSE_END = re.compile(r"[.,;:!?]+$")
_EAST_ASIAN = r"[\u3041-\u3096\u30a1-\u30fa\u30fc\u3400-\u9fff]"
_UNSPACED_JOIN = re.compile(rf"(?<={_EAST_ASIAN}) (?={_EAST_ASIAN})")
_SPACED_JOIN = re.compile(rf"(?<={_EAST_ASIAN})(?=[A-Za-z0-9`])|(?<=[A-Za-z0-9`%])(?={_EAST_ASIAN})")


@dataclass(frozen=True)
class Plural:
    """The id of a message whose form depends on one of the numbers that it is told with."""

    id: str
    by: str
    """The number that counts; in the text it is `{n}`."""


@dataclass(frozen=True)
class Language:
    """Digits are Latin in all of them.

    Japanese and Chinese technical texts have no others. Arabic and Indian ones have their own, but a reader
    meets these figures beside code, units and logs (`--batch_size=8`, `36.4 TFLOP/s`), where they are Latin
    in every terminal and paper, and two sets of digits in one sentence cannot be compared at a glance. For
    the same reason thousands are grouped by three in Hindi too, beside k, M and B.
    """

    code: str
    """As in `lang` of HTML."""
    locale: str
    """As Babel names it; the catalogue's name too."""
    direction: Direction = "ltr"

    def say(self, message: str, /, **values: str) -> str:
        """The text of the message with this id."""
        return self.spaced(texts(self.locale).forms[message][0].format(**values))

    def say_plural(self, message: str, n: int, /, **values: str) -> str:
        """In the form for the count `n`, which is shown as `{n}`."""
        known = texts(self.locale)
        return self.spaced(known.forms[message][known.form_of(n)].format(n=self.number(n, ","), **values))

    def spaced(self, text: str) -> str:
        """In Japanese and Chinese a space parts Latin from other letters, whichever of them fills a place."""
        if self.code not in UNSPACED:
            return text
        return _SPACED_JOIN.sub(" ", _UNSPACED_JOIN.sub("", text))

    def has(self, message: str) -> bool:
        return message in texts(self.locale).forms

    def has_plural(self, message: str) -> bool:
        """Whether its form depends on a count: English has two of those."""
        return len(texts(ENGLISH.locale).forms[message]) > 1

    def tell(self, message: str | Plural, values: Mapping[str, str], numbers: Mapping[str, object]) -> str:
        """`numbers` are what `values` were before they were formatted."""
        if isinstance(message, str):
            return self.say(message, **values)
        n = numbers[message.by]
        assert isinstance(n, int), f"{message.by} counts"
        return self.say_plural(message.id, n, **values)

    def unit(self, symbol: str) -> str:
        """GiB is Gio in French; most units are the same everywhere."""
        known = texts(self.locale).forms.get(f"unit.{symbol.lower().replace('/', '-per-')}")
        return symbol if known is None else known[0]

    def number(self, value: float, how: str = ",") -> str:
        """`how` as in f-strings. It is rounded the same in all languages; only the marks are their own."""
        return self.marks(format(value, how))

    def marks(self, figures: str) -> str:
        """Figures as English writes them (1,234.5) with the marks of this language, but for an exponent."""
        if self.locale == ENGLISH.locale:
            return figures
        point, comma, minus = symbols(self.locale)
        mantissa, e, exponent = figures.partition("e")
        return mantissa.translate({ord("."): point, ord(","): comma, ord("-"): minus}) + e + exponent

    def listed(self, items: Sequence[str]) -> str:
        """a, b and c."""
        if len(items) < 2:
            return "".join(items)
        return self.say("list.last-item", items=self.joined(items[:-1]), last=items[-1])

    def joined(self, items: Sequence[str]) -> str:
        """a, b, c."""
        return self.say("list.item-separator").join(items)

    def clauses(self, parts: Sequence[str]) -> str:
        """Of one sentence: a; b."""
        return self.say("list.clause-separator").join(parts)

    def paragraph(self, sentences: Sequence[str]) -> str:
        """Without the last full stop, which is its reader's to set: a. b."""
        return self.say("list.sentence-separator").join(sentences)

    def together(self, sentences: Sequence[str]) -> str:
        """Whole ones, with their full stops: a. b."""
        return ("" if self.code in UNSPACED else " ").join(sentences)

    def date(self, moment: datetime) -> str:
        """2026-11-16, or as this language writes it."""
        return (
            f"{moment:%Y-%m-%d}"
            if self.locale == ENGLISH.locale
            else written_date(moment.date(), self.locale)
        )

    def moment(self, moment: datetime) -> str:
        """To the minute; it is the caller's to have it in UTC."""
        return self.say("common.date-and-time", date=self.date(moment), time=f"{moment:%H:%M}")

    def isolated(self, text: str) -> str:
        """For a page that is not a terminal: in right-to-left text, what is Latin keeps its own direction.

        Without that, `--lang` or `-3.2%` would be shown with its marks at the wrong end.
        """
        if self.direction == "ltr":
            return text
        return latin_isolated(text)


def latin_isolated(text: str) -> str:
    return _LATIN.sub(_isolate, text)


def _isolate(found: re.Match[str]) -> str:
    """Marks at the end belong to the sentence."""
    text = _LOOSE_END.sub("", found[0])
    return f"{OPEN}{text}{CLOSE}{found[0][len(text) :]}"


ENGLISH = Language("en", "en")
FROM_THE_RIGHT = frozenset({"ar", "fa", "he", "ur", "yi"})


def _of_locale(locale: str) -> Language:
    direction: Direction = "rtl" if locale.split("_")[0] in FROM_THE_RIGHT else "ltr"
    return Language(locale.replace("_", "-"), locale, direction)


_OTHERS = (_of_locale(each) for each in locales() if each != ENGLISH.locale)
LANGUAGES: Mapping[str, Language] = {each.code: each for each in (ENGLISH, *_OTHERS)}
"""By code: English, and the others that there is a file for."""


def asked_for(wanted: str | None, environment: Mapping[str, str]) -> str:
    """`--lang`, else the locale: `fr_CA.UTF-8@euro` is fr-CA; an empty word for none."""
    text = wanted or next((found for name in ENVIRONMENT if (found := environment.get(name))), "")
    plain = (re.split(r"[.@]", text)[0] or text).strip().replace("_", "-")
    return "" if plain.lower() in NO_LANGUAGE else plain


def language_for(wanted: str | None, environment: Mapping[str, str]) -> Language:
    """The nearest that there is, else English: never a fault of the user's."""
    first = asked_for(wanted, environment).lower().split("-")[0]
    return next((each for code, each in LANGUAGES.items() if code.split("-")[0] == first), ENGLISH)


def not_quite(wanted: str | None, environment: Mapping[str, str]) -> str | None:
    """What to tell a reader whose language is not there; None where it is."""
    asked = asked_for(wanted, environment)
    found = language_for(wanted, environment)
    script = _script(asked)
    if not asked or (
        asked.lower().split("-")[0] == found.code.split("-")[0] and script in (None, found.code)
    ):
        return None
    listed = ", ".join(LANGUAGES)
    return f"{asked} is not available, so this is in {found.code}; languages: {listed}"


def _script(asked: str) -> str | None:
    """Chinese is written in two ways; a place says which."""
    parts = asked.lower().split("-")
    if parts[0] != "zh" or len(parts) == 1:
        return None
    return "zh-Hant" if {"hant", "tw", "hk", "mo"} & set(parts[1:]) and "hans" not in parts else "zh-Hans"
