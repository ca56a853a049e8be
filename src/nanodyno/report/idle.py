"""Settings that do nothing beside the others, in words."""

from collections.abc import Iterable, Iterator

from nanodyno.config.idle import Idle, Unreached
from nanodyno.report import quantities
from nanodyno.report.language import ENGLISH, Language


def idle_notes(found: Iterable[Idle | Unreached], language: Language = ENGLISH) -> Iterator[str]:
    for each in found:
        if isinstance(each, Idle):
            yield language.say_plural(
                "{keys} does nothing beside the other settings: it needs {needs}",
                "{keys} do nothing beside the other settings: they need {needs}",
                len(each.keys),
                keys=language.listed(each.keys),
                needs=each.needs.replace("|", " / "),
            )
        else:
            yield language.say(
                "batch_ramp: the size from {since} tokens on is never reached, since the run ends at "
                "{tokens}",
                since=quantities.count(each.since, language),
                tokens=quantities.count(each.tokens, language),
            )
