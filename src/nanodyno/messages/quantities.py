"""Numbers as people read them: counts, rates, bytes in GiB, durations."""

import math

from nanodyno.messages.language import ENGLISH, Language

GIB = 2**30
PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
BYTE_RATES = (
    (1e15, "PB/s"),
    (1e12, "TB/s"),
    (1e9, "GB/s"),
    (1e6, "MB/s"),
    (1e3, "kB/s"),
)
DURATIONS = (
    (86400, "unit.days", 3600, "unit.hours"),
    (3600, "unit.hours", 60, "unit.minutes"),
    (60, "unit.minutes", 1, "unit.seconds"),
)


def of_unit(number: str, unit: str, language: Language = ENGLISH) -> str:
    """36.4 TFLOP/s: a number, formatted, and a unit, which may be another one there."""
    return language.say("unit.number-with-unit", number=number, unit=language.unit(unit))


def count(value: float, language: Language = ENGLISH) -> str:
    """850 / 12.3k / 123.6M / 9.87B, as parameters and tokens are spoken of everywhere."""
    for size, suffix in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size * 0.9995:
            return f"{language.marks(_three_digits(value / size))}{suffix}"
    return language.number(value, ".0f")


def flop_rate(value: float, language: Language = ENGLISH) -> str:
    """427 TFLOP/s."""
    for size, prefix in PREFIXES:
        if value >= size * 0.9995:
            return of_unit(language.marks(_three_digits(value / size)), f"{prefix}FLOP/s", language)
    return of_unit(language.number(value, ".0f"), "FLOP/s", language)


def byte_rate(value: float, language: Language = ENGLISH) -> str:
    """4.19 TB/s, of 10^12 bytes as datasheets count; 335.4 MB/s."""
    for size, unit in BYTE_RATES:
        if value >= size * 0.9995:
            return of_unit(language.marks(_three_digits(value / size)), unit, language)
    return of_unit(language.number(value, ".0f"), "B/s", language)


def gib(value: int, language: Language = ENGLISH) -> str:
    """11.98 GiB; small runs keep two digits."""
    size = value / GIB
    if size >= 0.1:
        return of_unit(language.number(size, ".2f"), "GiB", language)
    if 0 < size * 1024 < 1:
        return of_unit(language.number(value / 1024, ".0f"), "KiB", language)
    return of_unit(language.number(size * 1024, ".0f"), "MiB", language)


def share(value: float, how: str = ".1f", language: Language = ENGLISH) -> str:
    """A fraction in percent, with as many decimals as `how` says: 12.3%, +0.4%."""
    return language.say("unit.percent", number=language.number(value * 100, how))


def percent(value: float, language: Language = ENGLISH) -> str:
    """A fraction as 45.8%; tiny ones keep two digits that say something."""
    figures = value * 100
    if figures == 0 or figures >= 1:
        return share(value, ".1f", language)
    return language.say("unit.percent", number=language.marks(_two_digits(figures)))


def spread(value: float, language: Language = ENGLISH) -> str:
    """To the tenth of a percent: ±1.6%, ±0.1%; less than half of one is <0.1%."""
    return f"±{share(value, '.1f', language)}" if value >= 0.0005 else f"<{share(0.001, '.1f', language)}"


def epochs(value: float, language: Language = ENGLISH) -> str:
    """Passes over the data: 1.25, 0.0053."""
    return language.marks(f"{value:.2f}" if value == 0 or value >= 1 else _two_digits(value))


def duration(seconds: float | None, language: Language = ENGLISH) -> str:
    """850 ms, 12.3 s, 4 min 5 s, 2 h, 3 d 4 h."""
    if seconds is None or not math.isfinite(seconds):
        return "?"
    if seconds < 1:
        return of_unit(language.number(seconds * 1000, ".0f"), "ms", language)
    if seconds < 59.95:
        return of_unit(language.number(seconds, ".1f"), "s", language)
    for size, name, small_size, small_name in DURATIONS:
        rounded = round(seconds / small_size) * small_size
        if rounded >= size:
            big, small = rounded // size, rounded % size // small_size
            shown = language.say_plural(name, big)
            if not small:
                return shown
            return language.say("unit.two-parts", big=shown, small=language.say_plural(small_name, small))
    return of_unit(language.number(seconds, ".0f"), "s", language)


def clock(seconds: float | None, language: Language = ENGLISH) -> str:
    """Time left: whole seconds are enough."""
    if seconds is None or not math.isfinite(seconds):
        return duration(None, language)
    if seconds < 59.5:
        return of_unit(language.number(seconds, ".0f"), "s", language)
    return duration(round(seconds), language)


def milliseconds(seconds: float, language: Language = ENGLISH) -> str:
    """9,340 ms; 121.9 ms; 3.82 ms."""
    value = seconds * 1000
    how = ",.0f" if value >= 1000 else ".1f" if value >= 10 else ".2f"
    return of_unit(language.number(value, how), "ms", language)


def short_time(seconds: float, language: Language = ENGLISH) -> str:
    """2.42 us; 14.2 ms."""
    if seconds >= 1e-3:
        return milliseconds(seconds, language)
    return of_unit(language.marks(_three_digits(seconds * 1e6)), "us", language)


def rate(value: float, language: Language = ENGLISH) -> str:
    """Tokens per second: 463,292."""
    return language.number(value, ",.0f")


def about(value: float, digits: int = 3, language: Language = ENGLISH) -> str:
    """As many digits as a prediction knows: 18,800; 148; 7.53."""
    if value == 0 or not math.isfinite(value):
        return language.number(value, ".0f")
    rounded = float(f"{value:.{digits - 1}e}")
    decimals = digits - 1 - math.floor(math.log10(abs(rounded)))
    return language.number(rounded, f",.{max(decimals, 0)}f")


def about_percent(value: float, language: Language = ENGLISH) -> str:
    """A predicted fraction: 59%, 5.3%."""
    return language.say("unit.percent", number=about(value * 100, 2, language))


def threads(number: int, language: Language = ENGLISH) -> str:
    return language.say_plural("common.thread-count", number)


def layers(number: int, width: int, language: Language = ENGLISH) -> str:
    return language.say_plural("model.layer-count", number, width=str(width))


def heads(number: int, language: Language = ENGLISH) -> str:
    return language.say_plural("model.head-count", number)


def _two_digits(value: float) -> str:
    """Of a value below 1, trailing zeros kept: 0.030 beside 0.031."""
    return f"{value:#.2g}" if value >= 0.0001 else "<0.0001"


def _three_digits(value: float) -> str:
    if value >= 99.95:
        return f"{value:.0f}" if value >= 999.5 else f"{value:.1f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
