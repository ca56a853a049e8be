"""`learning_rate = auto` on the command line: found by a range test, told, and noted in the run."""

from typing import TYPE_CHECKING

from nanodyno.cli.options import console_for
from nanodyno.errors import NanodynoError

if TYPE_CHECKING:
    from nanodyno.inputs import Request


def with_found_rate(request: "Request") -> "tuple[Request, tuple[str, ...]]":
    """The request with a number for the learning rate, and what is to be noted of where it is from."""
    from nanodyno.recipes import wants_found_rate

    if not wants_found_rate(request.settings):
        return request, ()

    from nanodyno.train.processes import launched

    if launched():
        raise NanodynoError(
            "learning_rate=auto works with one process only",
            "first find it with one process: `nanodyno train CONFIG --learning_rate=auto --max_iters=...`. "
            "Then give that number to all processes",
        )

    from nanodyno.experiments.rates import range_test
    from nanodyno.report.progress import say
    from nanodyno.report.rates import chosen_words, event_words

    console = console_for(json=True)
    try:
        found = range_test(
            request.settings.values,
            lambda event: say(console, event if isinstance(event, str) else event_words(event)),
        )
    except KeyboardInterrupt:
        say(console, "the range test was stopped. Finished runs are kept; the same command continues")
        raise
    words = chosen_words(found.chosen, len(found.trials), found.lengths)
    return request.changed({"learning_rate": found.chosen.learning_rate}), (words,)
