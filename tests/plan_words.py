"""Whether a page says a message, whatever its English is at present."""

import re

from nanodyno.messages.language import ENGLISH, Language
from nanodyno.messages.texts import texts


def says(page: str, message: str, language: Language = ENGLISH, /, **places: str) -> bool:
    """Whether a text of this id stands in the page with these places; any other place may hold anything.

    It does not matter where lines are broken.
    """
    page = " ".join(page.split())
    return any(re.search(_pattern(form, places), page) for form in texts(language.locale).forms[message])


def _pattern(form: str, places: dict[str, str]) -> str:
    parts = re.split(r"\{(\w+)\}", " ".join(form.split()))
    return "".join(
        (re.escape(places[part]) if part in places else ".+?") if number % 2 else re.escape(part)
        for number, part in enumerate(parts)
    )
