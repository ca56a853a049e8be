"""The gradient noise scale: how large a batch has to be for its gradient to be more signal than noise.

Pure arithmetic in a root module, since a run that grows its batch needs it as much as whoever reads its
records. docs/noise.md derives what stands here.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul

WINDOW, LONGEST = 50, 1600
"""Measured iterations in which the weight of one falls to 1/e: of what is told meanwhile, and at most."""
REACH = 4
"""Windows, older than which all together would weigh 2%."""
KEPT = REACH * WINDOW
ENOUGH = 32
"""Measured iterations below which nothing is said."""
WIDEST = 4.0
"""Upper end over lower end: an estimate that is wider has not settled, and nothing is advised from it."""
HELD = 0.5
"""Of the highest learning rate. Below, the signal falls with the rate and the noise does not, so that the
scale rises, by a factor of five to ten in small runs (docs/log); a larger batch with the rate that belongs to
it would not find it so."""
SERVED = (0.5, 1.0)
"""Of the noise scale. Above, every doubling of the batch costs close to a doubling of the tokens; below,
hardly a token is saved, and a GPT-2 at a third of it ended worse by 0.05 (docs/measurements.md)."""
MIDDLE = math.sqrt(SERVED[0] * SERVED[1])
"""What a batch is advised to be, and let grow to."""
Z = 1.96


@dataclass(frozen=True)
class Sample:
    """One iteration's unbiased estimates; either may come out below zero."""

    signal: float
    """Of |G|^2, the square of the true gradient's norm."""
    noise: float
    """Of tr(Sigma), the variance of one token's gradient, summed over all parameters."""


@dataclass(frozen=True)
class NoiseScale:
    """tr(Sigma) / |G|^2 in tokens, with an interval meant for 95 of 100; simulated, it covers 91 to 96."""

    tokens: float | None
    """None while the signal is not above zero: then the batch tells nothing of where it ends."""
    low: float | None
    high: float | None
    """None where it has no upper end: the signal cannot be told from zero."""
    samples: int

    def document(self) -> dict[str, float | bool | None]:
        """As every JSON document has an estimate, and whether it has settled."""
        return {
            "value": self.tokens, "low": self.low, "high": self.high, "n": self.samples,
            "settled": self.settled,
        }  # fmt: skip

    @property
    def settled(self) -> bool:
        if self.samples < ENOUGH or not self.low or self.high is None:
            return False
        return self.high <= WIDEST * self.low


def sample(small_norm: float, small_tokens: int, big_norm: float, big_tokens: int) -> Sample | None:
    """From the gradient's norm over a small and over a big batch; None where there is nothing to learn.

    E|g_B|^2 = |G|^2 + tr(Sigma) / B for both, which is solved for the two.
    """
    small, big = small_norm * small_norm, big_norm * big_norm  # a power would raise where it overflows
    if big_tokens <= small_tokens or not math.isfinite(small + big):
        return None
    signal = (big_tokens * big - small_tokens * small) / (big_tokens - small_tokens)
    noise = (small - big) / (1 / small_tokens - 1 / big_tokens)
    return Sample(signal, noise)


def recent(samples: Sequence[Sample]) -> Sequence[Sample]:
    """The later half of all that were measured, of which noise_scale takes as many as its window reaches.

    A run's first iterations have many times the signal of those that follow: in an average over all of them
    they would outweigh the rest until some 200 have passed.
    """
    return samples[-max(ENOUGH, len(samples) // 2) :]


def whole_scale(samples: Sequence[Sample]) -> NoiseScale | None:
    """By all that a run has measured: the more there is, the longer the window, so that it settles in time.

    An eighth of the samples: where the scale rises as their root, this is 6% behind.
    """
    later = recent(samples)
    return noise_scale(later, max(WINDOW, min(LONGEST, len(later) // REACH)))


def noise_scale(samples: Sequence[Sample], window: int = WINDOW) -> NoiseScale | None:
    """The ratio of the two averages, each taken by itself: a mean of ratios would be biased, and wild.

    Weights fall by 1/e every `window` samples towards the past and are scaled to a sum of 1, so that the
    beginning pulls nothing towards zero. None without samples.
    """
    latest = samples[-REACH * window :]
    if not latest:
        return None
    weights = _weights(len(latest), window)
    signal = math.fsum(w * each.signal for w, each in zip(weights, latest, strict=True))
    noise = math.fsum(w * each.noise for w, each in zip(weights, latest, strict=True))
    low, high = _fieller(signal, noise, _Spread.of(latest, weights, signal, noise))
    return NoiseScale(noise / signal if signal > 0 else None, low, high, len(latest))


def _weights(count: int, window: int) -> list[float]:
    raw = [math.exp((at - count) / window) for at in range(count)]
    total = math.fsum(raw)
    return [each / total for each in raw]


@dataclass(frozen=True)
class _Spread:
    """Variances and covariance of the two averages, and how wide the interval is in their roots."""

    signal: float
    noise: float
    both: float
    width: float

    @classmethod
    def of(
        cls, samples: Sequence[Sample], weights: Sequence[float], signal: float, noise: float
    ) -> "_Spread | None":
        """Neighbours that lie on the same side count together, after Newey and West (1987)."""
        lags = max(1, int(4 * (len(samples) / 100) ** (2 / 9)))
        # The averages were taken out of the same samples, once for themselves and once for every lag.
        effective = 1 / math.fsum(w * w for w in weights)
        degrees = effective - 1 - lags
        if degrees < 1:
            return None
        x = [w * (each.signal - signal) for w, each in zip(weights, samples, strict=True)]
        y = [w * (each.noise - noise) for w, each in zip(weights, samples, strict=True)]
        few = effective / degrees
        return cls(
            few * _long_run(x, x, lags),
            few * _long_run(y, y, lags),
            few * _long_run(x, y, lags),
            Z + (Z**3 + Z) / (4 * degrees),  # Student's t, to a few thousandths from 20 degrees on
        )


def _long_run(x: Sequence[float], y: Sequence[float], lags: int) -> float:
    """The covariance of two sums whose terms are correlated with their neighbours."""
    total = _product(x, y)
    for lag in range(1, lags + 1):
        total += (1 - lag / (lags + 1)) * (_product(x[lag:], y) + _product(y[lag:], x))
    return total


def _product(x: Sequence[float], y: Sequence[float]) -> float:
    """As far as the shorter one goes."""
    return sum(map(mul, x, y))


def _fieller(signal: float, noise: float, spread: _Spread | None) -> tuple[float | None, float | None]:
    """Every ratio r for which noise - r * signal is not shown to differ from zero, after Fieller (1954).

    Exact for a ratio of two normal averages, where the delta method would give an upper end to what has none.
    """
    if spread is None:
        return None, None
    square = spread.width**2
    a = signal**2 - square * spread.signal
    b = signal * noise - square * spread.both
    c = noise**2 - square * spread.noise
    root = math.sqrt(max(0.0, b * b - a * c))
    if a > 0 and signal > 0:
        return max(0.0, (b - root) / a), (b + root) / a
    # The signal may be zero: there is no upper end, and a lower one where the noise is shown to be there.
    return (c / (b + root) if c > 0 and b + root > 0 else None), None
