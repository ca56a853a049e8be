"""The gradient noise scale in words."""

from nanodyno.analysis.noise_scale import served
from nanodyno.noise import ENOUGH, WIDEST, NoiseScale
from nanodyno.report import quantities
from nanodyno.report.language import ENGLISH, Language


def noise_scale_words(scale: NoiseScale, language: Language = ENGLISH) -> str:
    """`41.2k tokens (95% interval 35.0k to 50.1k, 200 measured iterations)`."""
    measured = language.say_plural("{n} measured iteration", "{n} measured iterations", scale.samples)
    # Few samples make any number, below zero too; so does a batch that is nearly all signal.
    if scale.samples < ENOUGH or (scale.tokens is not None and scale.tokens <= 0):
        return language.say("not known yet ({measured})", measured=measured)
    low = None if scale.low is None else quantities.count(scale.low, language)
    if scale.tokens is None:
        words = language.say("not known ({measured}): the noise drowns the signal", measured=measured)
        return _from_below(words, low, language)
    tokens = quantities.count(scale.tokens, language)
    if low is None or scale.high is None:
        words = language.say("about {tokens} tokens ({measured})", tokens=tokens, measured=measured)
        return _from_below(words, low, language)
    return language.say(
        "{tokens} tokens (95% interval {low} to {high}, {measured})",
        tokens=tokens,
        low=low,
        high=quantities.count(scale.high, language),
        measured=measured,
    )


def _from_below(words: str, low: str | None, language: Language) -> str:
    if low is None:
        return words
    return language.clauses([words, language.say("at least {tokens} tokens", tokens=low)])


def serving_words(scale: NoiseScale, language: Language = ENGLISH) -> str:
    if not scale.settled:
        return language.say("no advice from it: {why}", why=unsettled_words(scale, language))
    low, high = (quantities.count(each, language) for each in served(scale))
    return language.say("{low} to {high} tokens per iteration serve now", low=low, high=high)


def unsettled_words(scale: NoiseScale, language: Language = ENGLISH) -> str:
    if scale.samples < ENOUGH:
        return language.say(
            "it has not settled, which takes {number} measured iterations", number=str(ENOUGH)
        )
    if scale.high is None:
        return language.say("it has not settled: the signal cannot be told from zero, so it has no upper end")
    return language.say(
        "it has not settled: the upper end of its interval is more than {times} times the lower",
        times=language.marks(f"{WIDEST:g}"),
    )


def unmeasured_words(language: Language = ENGLISH) -> str:
    return language.say(
        "not measured: there is one micro-step per iteration; a smaller --batch_size at the same "
        "--tokens_per_iter would tell, or a larger --tokens_per_iter"
    )


def decay_words(iteration: int, language: Language = ENGLISH) -> str:
    """What is added where the latest iterations were left out of account."""
    return language.say(
        "measured until iteration {iteration}, when the learning rate fell below half of its peak: that "
        "alone raises the noise scale",
        iteration=language.number(iteration, ","),
    )
