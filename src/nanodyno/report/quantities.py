"""Numbers as people read them: counts, rates, bytes in GiB, durations."""

import math

GIB = 2**30
PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def count(value: float) -> str:
    """850 / 12.3k / 123.6M / 9.87B, as parameters and tokens are spoken of."""
    for size, suffix in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size * 0.9995:
            return f"{_three_digits(value / size)}{suffix}"
    return f"{value:.0f}"


def flop_rate(value: float) -> str:
    """427 TFLOP/s."""
    for size, prefix in PREFIXES:
        if value >= size * 0.9995:
            return f"{_three_digits(value / size)} {prefix}FLOP/s"
    return f"{value:.0f} FLOP/s"


def byte_rate(value: float) -> str:
    """4.19 TB/s, of 10^12 bytes as datasheets count; 335.4 MB/s."""
    for size, prefix in PREFIXES:
        if value >= size * 0.9995:
            return f"{_three_digits(value / size)} {prefix}B/s"
    return f"{value:.0f} B/s"


def gib(value: int) -> str:
    """11.98 GiB; small runs keep two digits."""
    size = value / GIB
    return f"{size:.2f} GiB" if size >= 0.1 else f"{size * 1024:.0f} MiB"


def percent(share: float) -> str:
    """A fraction as 45.8%; tiny ones keep two digits that say something."""
    value = share * 100
    if value == 0 or value >= 1:
        return f"{value:.1f}%"
    return f"{_two_digits(value)}%"


def spread(share: float) -> str:
    """To the tenth of a percent: ±1.6%, ±0.1%; less than half of one is <0.1%."""
    return f"±{share:.1%}" if share >= 0.0005 else "<0.1%"


def epochs(value: float) -> str:
    """Passes over the data: 1.25, 0.0053."""
    return f"{value:.2f}" if value == 0 or value >= 1 else _two_digits(value)


def duration(seconds: float | None) -> str:
    """850 ms, 12.3 s, 4 min 05 s, 2 h 03 min, 3 d 04 h."""
    if seconds is None or not math.isfinite(seconds):
        return "?"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    for size, big, small_size, small in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        rounded = round(seconds / small_size) * small_size
        if rounded >= size:
            return f"{rounded // size} {big} {rounded % size // small_size:02d} {small}"
    return f"{seconds:.0f} s"


def clock(seconds: float | None) -> str:
    """Time left: whole seconds are enough."""
    if seconds is None or not math.isfinite(seconds):
        return duration(None)
    return f"{seconds:.0f} s" if seconds < 59.5 else duration(round(seconds))


def milliseconds(seconds: float) -> str:
    """9,340 ms; 121.9 ms; 3.82 ms."""
    value = seconds * 1000
    if value >= 1000:
        return f"{value:,.0f} ms"
    return f"{value:.1f} ms" if value >= 10 else f"{value:.2f} ms"


def short_time(seconds: float) -> str:
    """2.42 us; 14.2 ms."""
    return f"{_three_digits(seconds * 1e6)} us" if seconds < 1e-3 else milliseconds(seconds)


def rate(value: float) -> str:
    """Tokens per second: 463,292."""
    return f"{value:,.0f}"


def about(value: float, digits: int = 3) -> str:
    """As many digits as a prediction knows: 18,800; 148; 7.53."""
    if value == 0 or not math.isfinite(value):
        return f"{value:.0f}"
    rounded = float(f"{value:.{digits - 1}e}")
    decimals = digits - 1 - math.floor(math.log10(abs(rounded)))
    return f"{rounded:,.{max(decimals, 0)}f}"


def about_percent(share: float) -> str:
    """A predicted fraction: 59%, 5.3%."""
    return f"{about(share * 100, 2)}%"


def threads(number: int) -> str:
    return "1 thread" if number == 1 else f"{number} threads"


def _two_digits(value: float) -> str:
    """Of a value below 1, trailing zeros kept: 0.030 beside 0.031."""
    return f"{value:#.2g}" if value >= 0.0001 else "<0.0001"


def _three_digits(value: float) -> str:
    if value >= 99.95:
        return f"{value:.0f}" if value >= 999.5 else f"{value:.1f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
