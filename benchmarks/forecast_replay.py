"""How far off is a forecast? Whole curves cut short, forecast, and compared with how they ended.

    python benchmarks/forecast_replay.py DIR [--json] [--curves] [--leave-out half] [--priors DIR]
                                             [--write-prior FILE]

DIR holds imported runs (`nanodyno import`), or tables with the columns step, lr and loss, a folder a model
size, or an index.json with schedules. For each curve and each prefix of it, by schedule kind and family:
  ours      median and largest absolute error of the final loss, in percent, and the coverage of 80% intervals
  constant  the mean final loss of the curves learned from: what knowing one number is worth
  last      the last value seen
  power     a plain power law with a floor, fitted to the same prefix
With --leave-out the prior for a curve is learned without it: from every second curve of each family (half),
or from other families (family) or kinds of run (kind). A search takes 5 to 15 minutes a prior; --priors
keeps what was found.
Beyond five times the curve, forecasts lean on the size law where the tokens of a curve are known.
The spreads are learned from the forecasts of curves left out by halves. The last table is of the prior that
ships, which has seen the curves it names: that is no test.
"""

import argparse
import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

from forecast_curves import Known, load
from forecast_learning import PREFIXES, SPREADS, calibrated, forecast_end, learn, numbers_of
from nanodyno.analysis.forecast_far import NEAR
from nanodyno.analysis.forecast_fit import Prior, prior_from, shipped_prior
from nanodyno.analysis.forecast_points import EARLIEST, Curve

KINDS = ("cosine", "wsd", "constant")
TRIED = (0.03, 0.05, 0.07, *PREFIXES)
NEAR_PREFIXES = tuple(each for each in PREFIXES if each >= 1 / NEAR)
"""From which a curve is forecast without the size law, so that its level is free."""
DECAY, STAGES = "wsd, one decay", "wsd, in stages"


@dataclass(frozen=True)
class Trial:
    """One curve at one prefix: errors as shares of the final loss."""

    curve: str
    kind: str
    """cosine, wsd or constant."""
    detail: str
    """wsd apart by how the rate falls: over some time, or at once to a lower stage."""
    family: str
    prefix: float
    final: float
    ours: float
    half_interval: float
    constant: float
    last: float
    power: float

    @property
    def covered(self) -> bool:
        return abs(self.ours) <= self.half_interval


def replay(curves: Sequence[Known], prior_for: Callable[[Known], tuple[Prior, float]]) -> list[Trial]:
    trials: list[Trial] = []
    for known in curves:
        prior, constant = prior_for(known)
        for prefix in TRIED:
            made, seen = forecast_end(known, prefix, prior), known.curve.until(prefix * known.last)
            if made is None:
                continue
            end = known.final
            trials.append(
                Trial(
                    known.name, known.kind, _detail(known), known.family, prefix, end,
                    float(made.median[-1]) / end - 1, float(made.high[-1] - made.median[-1]) / end,
                    constant / end - 1, float(seen.losses[-1]) / end - 1,
                    plain_power(known, seen) / end - 1,
                )
            )  # fmt: skip
    return trials


def _detail(known: Known) -> str:
    return known.kind if known.kind != "wsd" else STAGES if known.at_once else DECAY


def plain_power(known: Known, seen: Curve) -> float:
    """A floor and a power of the updates, by robust least squares over the stretch that ours is fitted to."""
    kept = seen.updates >= max(known.schedule.peak_at, EARLIEST * seen.updates[-1])
    ratio, losses = seen.updates[kept] / seen.updates[-1], seen.losses[kept]

    def off(tried: np.ndarray) -> np.ndarray:
        return tried[0] + np.exp(tried[1]) * ratio ** -np.exp(tried[2]) - losses

    start = [losses[-1] - 0.3, np.log(0.3), np.log(0.5)]
    floor, scale, power = least_squares(off, start, loss="huber", f_scale=0.01, max_nfev=300).x
    return float(floor + np.exp(scale) * (known.last / seen.updates[-1]) ** -np.exp(power))


def left_out(
    curves: Sequence[Known], by: str = "half", evaluations: int = 250, kept: Path | None = None
) -> Callable[[Known], tuple[Prior, float]]:
    """Return for each curve a prior learned without its part, and the mean end of the others."""
    spreads = calibrated(priors_without(curves, "half", evaluations, kept), curves)
    prior_for = priors_without(curves, by, evaluations, kept)
    parts = {known.name: part_of(known, curves, by) for known in curves}

    def made(known: Known) -> tuple[Prior, float]:
        others = [each.final for each in curves if parts[each.name] != parts[known.name]]
        return replace(prior_for(known), **spreads), float(np.mean(others))

    return made


def priors_without(
    curves: Sequence[Known], by: str, evaluations: int, kept: Path | None
) -> Callable[[Known], Prior]:
    parts = {known.name: part_of(known, curves, by) for known in curves}
    made: dict[str, Prior] = {}
    for part in sorted(set(parts.values())):
        file = None if kept is None else kept / f"{by}-{part}.json"
        if file is None or not file.exists():
            made[part] = learn([known for known in curves if parts[known.name] != part], evaluations)
        else:
            made[part] = prior_from(SPREADS | json.loads(file.read_text()))
        if file is not None and not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(numbers_of(made[part]), indent=1) + "\n")
    return lambda known: made[parts[known.name]]


def part_of(known: Known, curves: Sequence[Known], by: str) -> str:
    """Every second curve of a family (half), a family, or all families of one kind."""
    if by == "family":
        return known.family
    if by == "half":
        family = [each.name for each in curves if each.family == known.family]
        return str(family.index(known.name) % 2)
    if known.size in ("25M", "100M", "400M"):
        return "multi-power-law"
    return "long-decays" if known.size == "350M" or "optimizer" in known.family else "records-and-cosines"


def table(trials: Sequence[Trial]) -> str:
    rows = ["| curves | prefix | count | ours | largest | constant | last | power | coverage | half width |"]
    rows.append("|" + "---|" * 10)
    families = sorted({each.family for each in trials})
    for kind in ("all", *KINDS, DECAY, STAGES, *families):
        for prefix in TRIED:
            some = [
                each
                for each in trials
                if kind in (each.kind, each.detail, each.family, "all") and each.prefix == prefix
            ]
            if some:
                errors = [
                    100 * float(np.median([abs(getattr(each, name)) for each in some]))
                    for name in ("ours", "constant", "last", "power", "half_interval")
                ]
                held = 100 * np.mean([each.covered for each in some])
                ours, *others, half = errors
                largest = 100 * max(abs(each.ours) for each in some)
                cells = [kind, f"{prefix:.0%}", str(len(some)), f"**{ours:.2f}**", f"{largest:.2f}"]
                cells += [f"{error:.2f}" for error in others] + [f"{held:.0f}%", f"{half:.2f}"]
                rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def by_curve(trials: Sequence[Trial]) -> float:
    """The share of intervals that cover the end, each curve counted once, from a prefix of 20% on."""
    names = sorted({each.curve for each in trials})
    shares = [
        float(np.mean([each.covered for each in trials if each.curve == name and each.prefix >= 0.2]))
        for name in names
    ]
    return float(np.mean(shares))


def shift_error(curves: Sequence[Known], prior: Prior) -> float:
    """By how much a forecast of up to five times a curve fails to move with it, raised or lowered."""
    worst = 0.0
    for known in curves:
        for shift, prefix in itertools.product((-0.3, 0.6), NEAR_PREFIXES):
            moved = replace(known, curve=_raised(known.curve, shift))
            one, other = forecast_end(known, prefix, prior), forecast_end(moved, prefix, prior)
            if one is not None and other is not None:
                worst = max(worst, abs(float(other.median[-1] - one.median[-1]) - shift))
    return worst


def _raised(curve: Curve, by: float) -> Curve:
    return Curve(curve.updates, curve.losses + by, curve.train_updates, curve.train_losses + by)


def written(prior: Prior, curves: Sequence[Known]) -> str:
    document = {
        "source": "benchmarks/forecast_replay.py --write-prior, from public runs: modded-nanogpt's records "
        "and MultiPowerLaw (both MIT), reproductions of build-nanogpt and nanoGPT",
        "curves": [known.name for known in curves],
        "mean_final_loss": float(np.mean([known.final for known in curves])),
        "prior": numbers_of(prior),
    }
    return json.dumps(document, indent=1) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", action="store_true", help="every trial, on stdout")
    parser.add_argument("--curves", action="store_true", help="every trial as a line")
    parser.add_argument(
        "--leave-out", choices=("half", "family", "kind"), help="learn priors without what is tried"
    )
    parser.add_argument("--priors", type=Path, help="a folder of priors found before, and for those of now")
    parser.add_argument("--evaluations", type=int, default=250, help="of a search for a prior")
    parser.add_argument("--write-prior", type=Path, help="learn from all of them and write the prior here")
    reported = parser.parse_args()
    curves = load(reported.folder)
    if reported.write_prior is not None:
        spreads = calibrated(priors_without(curves, "half", reported.evaluations, reported.priors), curves)
        prior = replace(learn(curves, reported.evaluations), **spreads)
        reported.write_prior.write_text(written(prior, curves))
        return
    text = files("nanodyno.analysis").joinpath("forecast_prior.json").read_text(encoding="utf-8")
    mean = json.loads(text)["mean_final_loss"]
    runs = {"shipped prior": replay(curves, lambda _: (shipped_prior(), mean))}
    if reported.leave_out is not None:
        others = left_out(curves, reported.leave_out, reported.evaluations, reported.priors)
        runs = {f"leave out one {reported.leave_out}": replay(curves, others), **runs}
    if reported.json:
        print(
            json.dumps({name: [asdict(each) for each in trials] for name, trials in runs.items()}, indent=1)
        )
        return
    for name, trials in runs.items():
        print(f"\n{name}: {len(curves)} curves\n\n{table(trials)}\n")
        print(f"80% intervals that cover the end, counted by curve, from 20% on: {by_curve(trials):.0%}")
        if reported.curves:
            for each in trials:
                half = 100 * each.half_interval
                print(f"  {each.curve:28} {each.prefix:.0%} {100 * each.ours:+.2f}% ± {half:.2f}")
    off = shift_error(curves, shipped_prior())
    print(f"a curve moved by -0.3 or 0.6 moves its forecast by that within {off:.1g}")


if __name__ == "__main__":
    main()
