"""Better, worse, no significant difference or not comparable: one decision for each question about runs.

Prose, tables, JSON documents and the leaderboard read a decision here, so that they cannot disagree. A run is
one draw of its config: another start of it is a little faster or slower, another seed ends a little higher
or lower. Both kinds of noise are in every decision: by the user's own repeated runs where there are enough
of them, else by the defaults below.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from nanodyno.analysis.account import Account
from nanodyno.analysis.changes import SettingChange, changes_between
from nanodyno.analysis.curves import CurveAxis, LossAt, are_of_other_text, per_iteration
from nanodyno.analysis.forecast_plan import ForecastSchedule, plan_of
from nanodyno.analysis.forecast_size import parameters_of
from nanodyno.analysis.moves import OF_MACHINE
from nanodyno.analysis.statistics import Interval
from nanodyno.analysis.student import exponential, t_quantile
from nanodyno.errors import NanodynoError
from nanodyno.schedule import learning_rate_at

Call = Literal["better", "worse", "no-significant-difference", "not-comparable"]
DisturbedBy = Literal["machine-busy", "gpu-shared", "gpu-throttled"]
NotComparable = Literal[
    DisturbedBy,
    "other-data",
    "other-schedule",
    "too-few-iterations",
    "speed-uncertain",
    "tokens-contradict",
    "rate-impossible",
    "unrecorded-difference",
]
Quantity = Literal["speed", "loss"]
LEVEL = 0.95
LEVEL_OF_ONE_CONFIG = 0.99
"""For two single runs of one config: that they differ would be odd, so it takes more to show it."""
NORMAL_95 = 1.96
ENOUGH_DEGREES = 3
"""Degrees of freedom from which repeated runs replace a default: four runs of a config, or three of two."""
DEFAULT_SPEED_SD = {"gpu": 0.02, "cpu": 0.10, None: 0.05}
"""Between starts of one config, relative, by the kind of device. Processes of one config on an H200 lie up
to 0.5% apart, consumer GPUs move with temperature and clock by 1 to 3%, and CPUs with what else runs
(docs/log)."""
SMALLEST_SPEED_SD = 0.002
DEFAULT_DEGREES = 20
"""Of freedom that a default counts as: it is no more certain than an estimate from so many runs."""
SEED_SD_OF_1M, SEED_EXPONENT = 0.02, 0.35
SEED_SD_RANGE = 0.002, 0.05
"""Between seeds, in nats: 0.02 for 1M parameters, falling with their power of 0.35 (the log: 0.01 to 0.03 for
0.1M to 1M, 0.01 for 124M after 8M tokens; 0.001 to 0.003 in public repetitions of 124M after 3B)."""
TOKEN_SD = 8.0
"""Of the mean loss over random val tokens, per root of their number: 2.5 to 3 nats a token, and neighbours
are alike, so that nine of them count for one."""
EVAL_SD_UNKNOWN = 0.01
SAME_LENGTH, SAME_SHARE = 0.1, 0.2
"""Two schedules are alike at a place if their lengths differ by no more than a tenth, or their learning
rates, as shares of the peak, by no more than a fifth."""


@dataclass(frozen=True)
class RunNoise:
    """How far single runs of one config lie apart: a standard deviation, of losses in nats, else relative."""

    sd: float
    degrees: int | None = None
    """Of freedom of the estimate from repeated runs; None: a default."""

    def half_width(self, variance: float, level: float) -> float:
        """Half of the confidence interval of an estimate that has this variance."""
        return t_quantile(self.degrees or DEFAULT_DEGREES, level) * math.sqrt(variance)

    def document(self) -> dict[str, object]:
        return {
            "sd": self.sd,
            "from": "default" if self.degrees is None else "replicates",
            "degrees_of_freedom": self.degrees,
        }


@dataclass(frozen=True)
class Decision:
    """Whether `runs`, replicates of one config, do better than `against` on one metric."""

    metric: str
    runs: tuple[str, ...]
    against: tuple[str, ...]
    call: Call
    effect: Interval | None
    """Of `runs` against `against`: a ratio of speeds, a difference of losses in nats. Its interval holds the
    noise between runs. None where nothing can be set against each other."""
    noise: RunNoise | None
    reason: NotComparable | None = None
    """Why the two are not comparable."""

    @property
    def is_significant(self) -> bool:
        return self.call in ("better", "worse")

    def document(self) -> dict[str, object]:
        return {
            "metric": self.metric,
            "runs": list(self.runs),
            "against": list(self.against),
            "call": self.call,
            "reason": self.reason,
            "effect": None if self.effect is None else {**self.effect.document(), "level": self.effect.level},
            "noise": None if self.noise is None else self.noise.document(),
        }


RunGroup = tuple[Account, ...]
"""Runs of one config: they differ by the seed at most."""


def groups_of(accounts: Sequence[Account]) -> tuple[RunGroup, ...]:
    """The runs with replicates put together; each alone where all are replicates of one another.

    A run that is named twice is one run.
    """
    groups: list[list[Account]] = []
    for account in accounts:
        home = next((group for group in groups if are_replicates(group[0], account)), None)
        if home is None:
            groups.append([account])
        elif not any(replace(account, name=each.name) == each for each in home):
            home.append(account)
    if len(groups) < 2:
        return tuple((account,) for account in accounts)
    return tuple(map(tuple, groups))


def check_groups(groups: Sequence[RunGroup]) -> None:
    """Refuse groups that a user put together of runs that are not of one config."""
    for first, *others in groups:
        for other in others:
            moving = (each for what in ("speed", "loss") for each in _moving(first, other, what))
            keys = sorted({each.key for each in moving} - {*OF_MACHINE})
            if keys:
                raise NanodynoError(
                    f"{first.name} and {other.name} are not repeated runs of one config: they differ in "
                    f"{', '.join(keys)}",
                    "join only runs with commas that differ in nothing but their seed",
                )


def are_replicates(one: Account, other: Account) -> bool:
    """Whether all that could move the speed or the loss is recorded of both and equal, but for the seed.

    Of the device it is enough that neither names another one.
    """
    return all(differ_in_nothing(one, other, what) and _is_recorded(one, other) for what in ("speed", "loss"))


def _is_recorded(one: Account, other: Account) -> bool:
    return not {*changes_between(one, other).unknown} - {*OF_MACHINE}


def differ_in_nothing(one: Account, other: Account, what: Quantity) -> bool:
    """Whether no setting that both record and that could move this differs, the seed aside.

    False where they record no setting in common.
    """
    if _device(one) != _device(other) or one.environment != other.environment:
        return False
    if what == "loss" and are_of_other_text(one, other):
        return False
    if not one.settings.keys() & other.settings.keys():
        return False
    return not _moving(one, other, what)


def _moving(one: Account, other: Account, what: Quantity) -> list[SettingChange]:
    """The changes that could move this, the seed aside."""
    changed = changes_between(one, other).that_move(what)
    return [each for each in changed if each.key != "seed" and each.kind != "reading"]


class Replicates:
    """Runs of which it is known which are of one config: for the noise between runs.

    Runs that were put into one group are; of others it must be recorded. Groups that the user made have a
    seed for each run, also where it is not recorded.
    """

    def __init__(
        self, accounts: Iterable[Account], groups: Iterable[RunGroup] = (), are_by_user: bool = False
    ) -> None:
        self._accounts = tuple(accounts)
        self._are_by_user = are_by_user
        self._groups = [{id(each) for each in group} for group in groups]
        self._known: dict[tuple[int, int, Quantity], bool] = {}

    def _alike(self, one: Account, other: Account, what: Quantity) -> bool:
        key = id(one), id(other), what
        if key not in self._known:
            self._known[key] = self._are_alike(one, other, what)
        return self._known[key]

    def _are_alike(self, one: Account, other: Account, what: Quantity) -> bool:
        homes = [next((group for group in self._groups if id(each) in group), None) for each in (one, other)]
        if homes[0] is not None and homes[1] is not None:
            return homes[0] is homes[1]
        return differ_in_nothing(one, other, what) and _is_recorded(one, other)

    def speed_noise(self, one: Account, other: Account) -> RunNoise:
        """Between runs of one config: by all replicates on the device, else a default; of two the larger."""
        sides = {_device(each): each for each in (one, other)}
        return max(map(self._noise_on_device, sides.values()), key=lambda noise: noise.sd)

    def _noise_on_device(self, account: Account) -> RunNoise:
        here = [
            each for each in self._accounts if _device(each) == _device(account) and not disturbed_by(each)
        ]
        rates = [(each, each.speed.tokens_per_second) for each in here]
        values = [(each, math.log(rate.value)) for each, rate in rates if rate and rate.low is not None]
        found = self._pooled(values, "speed")
        if found is not None:
            return RunNoise(max(found.sd, SMALLEST_SPEED_SD), found.degrees)
        return RunNoise(DEFAULT_SPEED_SD[account.device_kind])

    def loss_noise(
        self, losses: Callable[[Account], LossAt | None], one: Account, other: Account
    ) -> RunNoise:
        """Between seeds of these two configs: by replicates of them, else the larger default for their sizes.

        Where one of them has no replicate, the other's count for it as far as the defaults are alike. A
        default leaves out the noise of an evaluation, which `decide_loss` adds.
        """
        own = [
            each
            for each in self._accounts
            if self._alike(one, each, "loss") or self._alike(other, each, "loss")
        ]
        read = [(each, loss.loss) for each in own if (loss := losses(each)) is not None]
        found = self._pooled(read, "loss")
        defaults = default_seed_sd(one), default_seed_sd(other)
        if found is None:
            return RunNoise(max(defaults))
        scale = 1.0
        for side, its, the_other in ((one, *defaults), (other, *defaults[::-1])):
            if sum(self._alike(side, each, "loss") for each, _ in read) < 2:
                scale = max(scale, its / the_other)
        return RunNoise(scale * max(found.sd, SEED_SD_RANGE[0]), found.degrees)

    def _pooled(self, values: Sequence[tuple[Account, float]], what: Quantity) -> RunNoise | None:
        """Within groups of replicates; the same record under two names counts once.

        Losses of one seed tell nothing of others.
        """
        groups: list[list[tuple[Account, float]]] = []
        for account, value in values:
            home = next((group for group in groups if self._alike(group[0][0], account, what)), None)
            if home is None:
                groups.append([(account, value)])
            elif not any(value == other and account.evals == known.evals for known, other in home) and (
                what == "speed" or self._has_own_seed(account, [known for known, _ in home])
            ):
                home.append((account, value))
        degrees = sum(len(group) - 1 for group in groups)
        if degrees < ENOUGH_DEGREES:
            return None
        squares = 0.0
        for group in groups:
            mean = math.fsum(value for _, value in group) / len(group)
            squares += math.fsum((value - mean) ** 2 for _, value in group)
        return RunNoise(math.sqrt(squares / degrees), degrees)

    def _has_own_seed(self, account: Account, others: Sequence[Account]) -> bool:
        seeds = [each.settings.get("seed") for each in (account, *others)]
        if None in seeds:
            return self._are_by_user and any(id(account) in group for group in self._groups)
        return seeds[0] not in seeds[1:]


def _device(account: Account) -> tuple[object, ...]:
    gpu = None if account.gpu is None else account.gpu.label
    return account.device_type, account.device_name or gpu, account.processes


def default_seed_sd(account: Account) -> float:
    """In nats, by the number of parameters; that of 1M where it is not known."""
    parameters = parameters_of(account) or 1e6
    low, high = SEED_SD_RANGE
    return min(high, max(low, SEED_SD_OF_1M * (parameters / 1e6) ** -SEED_EXPONENT))


def evaluation_sd(account: Account, loss: LossAt) -> float:
    """Of one evaluation: by the run's own curve, else by the tokens that it is the mean over."""
    if loss.noise is not None:
        return loss.noise
    tokens = account.eval_tokens
    return EVAL_SD_UNKNOWN if not tokens else TOKEN_SD / math.sqrt(tokens)


def loss_interval(account: Account, loss: LossAt, noise: RunNoise) -> Interval:
    """A val loss with the 95% interval of another seed of the same config."""
    half = noise.half_width(_loss_variance(account, loss, noise), LEVEL)
    return Interval(loss.loss, loss.loss - half, loss.loss + half, LEVEL, 1)


def _loss_variance(account: Account, loss: LossAt, noise: RunNoise, speed_sd: float = 0.0) -> float:
    """Of one run's loss; replicates already scatter by what the noise of an evaluation and of speed does."""
    if noise.degrees is not None:
        return noise.sd**2
    return noise.sd**2 + evaluation_sd(account, loss) ** 2 + (loss.slope * speed_sd) ** 2


def disturbed_by(account: Account) -> DisturbedBy | None:
    """Return what took speed away, so that the run's speed is not the config's own; None if nothing did."""
    state = account.machine_state
    if state is None:
        return None
    if state.is_busy:
        return "machine-busy"
    if state.gpu_shared:
        return "gpu-shared"
    return "gpu-throttled" if state.is_throttled else None


@dataclass(frozen=True)
class GroupPair:
    """Two groups of replicates to be judged, and how far single runs lie apart."""

    runs: RunGroup
    against: RunGroup
    noise: RunNoise
    level: float = LEVEL
    speed_sd: float = 0.0
    """Between runs, relative, for losses at equal time: a run that is faster by chance has trained more."""

    def decision(
        self, metric: str, effect: Interval, call: Call, reason: NotComparable | None = None
    ) -> Decision:
        names = [tuple(each.name for each in group) for group in (self.runs, self.against)]
        return Decision(metric, names[0], names[1], call, effect, self.noise, reason)

    def at_level_for(self, *moved_by: Quantity) -> "GroupPair":
        one_config = self._is_of_one_config(moved_by)
        return replace(self, level=max(self.level, LEVEL_OF_ONE_CONFIG)) if one_config else self

    def _is_of_one_config(self, moved_by: Sequence[Quantity]) -> bool:
        single = len(self.runs) == len(self.against) == 1
        return single and all(differ_in_nothing(self.runs[0], self.against[0], what) for what in moved_by)

    def with_values(self, values: Callable[[Account], object]) -> "GroupPair":
        """With the runs alone of which there is a value."""
        kept = [
            tuple(each for each in group if values(each) is not None) for group in (self.runs, self.against)
        ]
        return replace(self, runs=kept[0], against=kept[1])

    def not_comparable(self, metric: str, effect: float, reason: NotComparable) -> Decision:
        return self.decision(metric, self.interval(effect, None), "not-comparable", reason)

    def interval(self, effect: float, half: float | None) -> Interval:
        count = min(len(self.runs), len(self.against))
        if half is None:
            return Interval(effect, None, None, self.level, count)
        return Interval(effect, effect - half, effect + half, self.level, count)

    def call(self, gain: float, half: float, *moved_by: Quantity) -> tuple[Call, NotComparable | None]:
        """By a gain, which is the better the larger, and half of its interval.

        One run of a config cannot be better than another one of it: then something differs that is not
        recorded.
        """
        if abs(gain) <= half:
            return "no-significant-difference", None
        if self._is_of_one_config(moved_by):
            return "not-comparable", "unrecorded-difference"
        return ("better" if gain > 0 else "worse"), None


def decide_speed(
    metric: str, values: Callable[[Account], Interval | None], pair: GroupPair
) -> Decision | None:
    """By a figure that is the higher the better, of the runs that have it; None where one side has none."""
    pair = pair.with_values(values)
    known = [[value for each in group if (value := values(each))] for group in (pair.runs, pair.against)]
    if not all(known):
        return None
    means = [math.fsum(math.log(value.value) for value in group) / len(group) for group in known]
    gain = means[0] - means[1]
    reason = _why_no_speed((*pair.runs, *pair.against), [value for group in known for value in group])
    if reason is not None:
        return pair.not_comparable(metric, math.exp(gain), reason)
    pair = pair.at_level_for("speed")
    variance = math.fsum(_speed_variance(group, pair.noise) for group in known)
    half = pair.noise.half_width(variance, pair.level)
    effect = exponential(pair.interval(gain, half))
    return pair.decision(metric, effect, *pair.call(gain, half, "speed"))


def _why_no_speed(accounts: RunGroup, values: Sequence[Interval]) -> NotComparable | None:
    for each in accounts:
        if reason := disturbed_by(each):
            return reason
    if all(value.low is not None for value in values):
        return None
    unlike_clock = any(each.elapsed_excess is not None for each in accounts)
    return "speed-uncertain" if unlike_clock else "too-few-iterations"


def _speed_variance(values: Sequence[Interval], noise: RunNoise) -> float:
    """Of the mean log speed of a group; replicates already scatter by what an iteration's noise does."""
    within = 0.0
    if noise.degrees is None:
        within = math.fsum(_log_sd(value) ** 2 for value in values) / len(values)
    return (noise.sd**2 + within) / len(values)


def _log_sd(value: Interval) -> float:
    assert value.low is not None
    assert value.high is not None
    return math.log(value.high / value.low) / (2 * NORMAL_95)


def decide_loss(
    metric: str, losses: Callable[[Account], LossAt | None], place: tuple[CurveAxis, float], pair: GroupPair
) -> Decision | None:
    """By val losses at one place, the lower the better, of the runs that have one there; None without any."""
    pair = pair.with_values(losses)
    known = [[loss for each in group if (loss := losses(each))] for group in (pair.runs, pair.against)]
    if not all(known):
        return None
    means = [math.fsum(loss.loss for loss in group) / len(group) for group in known]
    difference = means[0] - means[1]
    reason = _why_no_loss(place, pair)
    if reason is not None:
        return pair.not_comparable(metric, difference, reason)
    moved_by: tuple[Quantity, ...] = ("speed", "loss") if place[0] == "seconds" else ("loss",)
    pair = pair.at_level_for(*moved_by)
    variance = 0.0
    for group, accounts in zip(known, (pair.runs, pair.against), strict=True):
        each = [_loss_variance(*of, pair.noise, pair.speed_sd) for of in zip(accounts, group, strict=True)]
        variance += math.fsum(each) / len(group) / _independent(accounts, pair.noise)
    half = pair.noise.half_width(variance, pair.level)
    return pair.decision(metric, pair.interval(difference, half), *pair.call(-difference, half, *moved_by))


def _independent(accounts: RunGroup, noise: RunNoise) -> int:
    """How many losses are draws of their own: runs of one seed are one, and so are those of unknown seeds.

    Of these, too, each is one where the noise is by runs that were put together as such.
    """
    seeds = [each.settings.get("seed") for each in accounts]
    unknown = seeds.count(None)
    return (unknown if noise.degrees is not None else min(unknown, 1)) + len({*seeds} - {None})


def _why_no_loss(place: tuple[CurveAxis, float], pair: GroupPair) -> NotComparable | None:
    one, other = pair.runs[0], pair.against[0]
    kinds = {each.kind for each in changes_between(other, one).changed}
    if "data" in kinds or are_of_other_text(one, other):
        return "other-data"
    everyone = (*pair.runs, *pair.against)
    if place[0] == "seconds":
        paces = [each.speed.iteration_seconds for each in everyone]
        reason = _why_no_speed(everyone, [pace for pace in paces if pace is not None])
        if reason is not None:
            return reason
    return None if at_one_stage(one, other, *place) else "other-schedule"


def at_one_stage(one: Account, other: Account, axis: CurveAxis, at: float) -> bool:
    """Whether two runs stand at a similar stage of their schedules; True where one is not known.

    A run whose learning rate has not come down yet lies above one that has, whatever the config.
    """
    plans, paces = (
        [_plan(each) for each in (one, other)],
        [per_iteration(each, axis) for each in (one, other)],
    )
    if plans[0] is None or plans[1] is None or not paces[0] or not paces[1]:
        return True
    ends = [plan.lr_decay_iters * pace for plan, pace in zip(plans, paces, strict=True) if plan and pace]
    shares = [_share(plan, at / pace) for plan, pace in zip(plans, paces, strict=True) if plan and pace]
    return max(ends) <= (1 + SAME_LENGTH) * min(ends) or abs(shares[0] - shares[1]) <= SAME_SHARE


def _plan(account: Account) -> ForecastSchedule | None:
    if "max_iters" not in account.settings:
        return None
    try:
        plan = plan_of(account)
    except NanodynoError:  # settings of a log that no schedule can have
        return None
    return plan if plan is not None and plan.learning_rate > 0 else None


def _share(plan: ForecastSchedule, iteration: float) -> float:
    return learning_rate_at(plan, int(iteration)) / plan.learning_rate
