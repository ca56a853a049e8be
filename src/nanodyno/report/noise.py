"""The gradient noise scale in words."""

from nanodyno.analysis.noise_scale import served
from nanodyno.messages import quantities
from nanodyno.messages.language import ENGLISH, Language
from nanodyno.noise import ENOUGH, WIDEST, NoiseScale


def noise_scale_words(scale: NoiseScale, language: Language = ENGLISH) -> str:
    """`41.2k tokens (95% interval 35.0k to 50.1k, 200 measured iterations)`."""
    measured = language.say_plural("batch.noise.measured-iterations", scale.samples)
    # Few samples make any number, below zero too; so does a batch that is nearly all signal.
    if scale.samples < ENOUGH or (scale.tokens is not None and scale.tokens <= 0):
        return language.say("batch.noise.not-known-yet", measured=measured)
    low = None if scale.low is None else quantities.count(scale.low, language)
    if scale.tokens is None:
        words = language.say("batch.noise.not-known", measured=measured)
        return _from_below(words, low, language)
    tokens = quantities.count(scale.tokens, language)
    if low is None or scale.high is None:
        words = language.say("batch.noise.about", tokens=tokens, measured=measured)
        return _from_below(words, low, language)
    return language.say(
        "batch.noise.with-interval",
        tokens=tokens,
        low=low,
        high=quantities.count(scale.high, language),
        measured=measured,
    )


def _from_below(words: str, low: str | None, language: Language) -> str:
    if low is None:
        return words
    return language.clauses([words, language.say("batch.noise.at-least", tokens=low)])


def serving_words(scale: NoiseScale, language: Language = ENGLISH) -> str:
    if not scale.settled:
        return language.say("batch.advice.none", why=unsettled_words(scale, language))
    low, high = (quantities.count(each, language) for each in served(scale))
    return language.say("batch.advice.range", low=low, high=high)


def unsettled_words(scale: NoiseScale, language: Language = ENGLISH) -> str:
    if scale.samples < ENOUGH:
        return language.say("batch.unsettled.too-few", number=str(ENOUGH))
    if scale.high is None:
        return language.say("batch.unsettled.no-upper-end")
    return language.say(
        "batch.unsettled.interval-too-wide",
        times=language.marks(f"{WIDEST:g}"),
    )


def unmeasured_words(language: Language = ENGLISH) -> str:
    return language.say("batch.not-measured.one-micro-step")


def decay_words(iteration: int, language: Language = ENGLISH) -> str:
    """What is added where the latest iterations were left out of account."""
    return language.say(
        "batch.noise.before-decay",
        iteration=language.number(iteration, ","),
    )
