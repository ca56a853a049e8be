"""Settings that do nothing beside the others, or have another name now, in words."""

from collections.abc import Iterable, Iterator

from nanodyno.config import present_name
from nanodyno.config.idle import Idle, Unreached
from nanodyno.messages import quantities
from nanodyno.messages.language import ENGLISH, Language


def renamed_notes(former: Iterable[str], language: Language = ENGLISH) -> Iterator[str]:
    """A note for each former name that a setting was given by."""
    for old in dict.fromkeys(former):
        yield language.say("option.note.renamed", old=old, new=present_name(old))


def idle_notes(found: Iterable[Idle | Unreached], language: Language = ENGLISH) -> Iterator[str]:
    for each in found:
        if isinstance(each, Idle):
            yield language.say_plural(
                "option.note.without-effect",
                len(each.keys),
                keys=language.listed(each.keys),
                needs=each.needs.replace("|", " / "),
            )
        else:
            yield language.say(
                "option.note.ramp-step-unreached",
                since=quantities.count(each.since, language),
                tokens=quantities.count(each.tokens, language),
            )
