"""Is this change better? Base and candidates trained in pairs on this machine until that is decided."""

import math
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from nanodyno import __version__
from nanodyno.analysis.account_reading import account_of
from nanodyno.analysis.forecast import ForecastQuestion, forecast
from nanodyno.analysis.judging import (
    FEWEST_FOR_FLOOR,
    CandidateState,
    Judged,
    JudgeRules,
    NoiseFloor,
    floor_of,
    floor_of_pairs,
    improvement,
    is_clear_loser,
    still_trained,
)
from nanodyno.analysis.moves import moves_speed
from nanodyno.config import SETTINGS, RunConfig, changed
from nanodyno.costs.flops import flops_per_token
from nanodyno.data.resolve import EMBEDDED, vocabulary_of
from nanodyno.errors import NanodynoError, RunFailed
from nanodyno.experiments.ground import DeviceState, look_around
from nanodyno.experiments.short_training import (
    PATIENCE,
    TASK,
    ShortTraining,
    Trained,
    refuse_without_data,
    shortened,
)
from nanodyno.probe.process import Child, Failure, Watch
from nanodyno.records.judging import (
    JudgeEqual,
    JudgeJournal,
    JudgeMachine,
    JudgeMetric,
    TrainingLine,
    VerdictLine,
    digest_of,
)
from nanodyno.records.store import read_run

PACE_TURNS = 3
PACE_ITERATIONS = 12
"""Iterations that the speed of a config is taken from, before it is known how long it is to train."""
FEWEST_ITERATIONS = 10
LOOKED_AT = 0.5, 0.65, 0.8
"""Shares of a training after which a clear loser may be stopped."""
WORTH_STOPPING_SECONDS = 20.0
"""Of a shorter training less is saved than the next one's process takes to start."""


@dataclass(frozen=True)
class JudgeRequest:
    base: RunConfig
    base_name: str
    candidates: Mapping[str, RunConfig]
    metric: JudgeMetric = "val_loss"
    equal: JudgeEqual = "time"
    minutes: float = 5.0
    rules: JudgeRules = field(default_factory=JudgeRules)
    again: bool = False


@dataclass(frozen=True)
class TrainingBegan:
    """For a display."""

    name: str
    pair: int | None
    """None where the speed is taken."""
    iterations: int


@dataclass(frozen=True)
class TrainingReached:
    iteration: int


JudgeEvent = TrainingBegan | TrainingReached | Judged
WatchJudge = Callable[[JudgeEvent], object]
TrainOne = Callable[[ShortTraining, Watch], Trained | Failure]


class ClearLoser(Exception):
    """Raised out of a training that its forecast gives no chance."""

    def __init__(self, iteration: int) -> None:
        super().__init__(iteration)
        self.iteration = iteration


@dataclass
class JudgeBench:
    """With what to train; tests have their own."""

    look: Callable[[RunConfig, int | None], DeviceState] = look_around
    train: TrainOne | None = None
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    cache: Path | None = None


@dataclass(frozen=True)
class JudgeResult:
    request: JudgeRequest
    floor: NoiseFloor | None
    judged: tuple[Judged, ...]
    iterations: Mapping[str, int]
    spent_seconds: float
    reused: int
    """Trainings that an earlier command had made."""
    interrupted: bool = False
    notes: tuple[str, ...] = ()


def judge(
    request: JudgeRequest, watch: WatchJudge = lambda _: None, bench: JudgeBench | None = None
) -> JudgeResult:
    """Train until every candidate is judged. Ctrl-C ends it with what is known; all trainings are kept."""
    bench = bench or JudgeBench()
    _refuse_unlike_data(request)
    place = bench.look(request.base, None)
    machine = JudgeMachine(machine=place.device.machine, torch=place.device.torch, nanodyno=__version__)
    journal = JudgeJournal(machine, request.again, bench.cache)
    with WarmChild() as warm:
        judging = _Judging(request, journal, bench, watch, bench.train or warm.train)
        try:
            return judging.run()
        finally:
            journal.close()


class WarmChild:
    """One process for many short trainings, which then start at once. What compiles gets one of its own:
    torch's compiler keeps what it learned of the training before."""

    def __init__(self) -> None:
        self._child: Child | None = None

    def __enter__(self) -> "WarmChild":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def train(self, request: ShortTraining, watch: Watch) -> Trained | Failure:
        if self._child is None or not self._child.is_alive():
            self.end()
            self._child = Child(TASK, PATIENCE)
        try:
            answer = self._child.ask(request, Trained, watch)
        except BaseException:
            self.end()
            raise
        if isinstance(answer, Failure) or request.config.compile:
            self.end()
        return answer

    def end(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None


@dataclass
class _Judging:
    request: JudgeRequest
    journal: JudgeJournal
    bench: JudgeBench
    watch: WatchJudge
    train: TrainOne
    spent: float = 0.0
    reused: int = 0
    lengths: dict[str, RunConfig] = field(default_factory=dict[str, RunConfig])
    candidates: dict[str, CandidateState] = field(default_factory=dict[str, CandidateState])
    bases: dict[int, TrainingLine] = field(default_factory=dict[int, TrainingLine])

    @property
    def paired_in_time(self) -> bool:
        """A speed is measured beside the other one, since machines drift. A loss may be of another day."""
        return self.request.metric == "tokens_per_second"

    def run(self) -> JudgeResult:
        interrupted = False
        try:
            self._set_lengths()
            self._decide()
        except KeyboardInterrupt:
            interrupted = True
        return JudgeResult(
            request=self.request,
            floor=self._floor(),
            judged=tuple(each.judged() for each in self.candidates.values()),
            iterations={name: config.max_iters for name, config in self.lengths.items()},
            spent_seconds=self.spent,
            reused=self.reused,
            interrupted=interrupted,
            notes=tuple(self.journal.notes),
        )

    def _set_lengths(self) -> None:
        """As many iterations as make the time, the tokens or the FLOPs of the base's minutes."""
        base, seconds = self.request.base, 60 * self.request.minutes
        pace = self._pace(self.request.base_name, base)
        if pace is None:
            failed = self.bases[-1].failure
            raise RunFailed(f"the base {self.request.base_name} cannot be trained: {failed}")
        tokens = pace * seconds
        self.lengths[self.request.base_name] = self._length(self.request.base_name, base, tokens)
        for name, config in self.request.candidates.items():
            self.candidates[name] = CandidateState(name, self.request.rules)
            own = tokens
            if self.request.equal == "flops":
                own = tokens * _flops(base) / _flops(config)
            elif self.request.equal == "time" and _changes_speed(base, config):
                own = tokens * self._speed_ratio(name, config)
            self._set_length(name, config, own)

    def _set_length(self, name: str, config: RunConfig, tokens: float) -> None:
        """Of a candidate. One that is too slow for the minutes has failed."""
        candidate = self.candidates[name]
        if candidate.failure is None:
            try:
                self.lengths[name] = self._length(name, config, tokens)
            except NanodynoError as error:
                candidate.failure = error.message
        if candidate.failure is not None:
            self._conclude(candidate)

    def _length(self, name: str, config: RunConfig, tokens: float) -> RunConfig:
        short = shortened(config, tokens)
        if short.max_iters >= FEWEST_ITERATIONS:
            return short
        enough = math.ceil(10 * FEWEST_ITERATIONS / max(1, short.max_iters) * self.request.minutes) / 10
        raise NanodynoError(
            f"--minutes {self.request.minutes:g} are {short.max_iters} iterations of {name}, and "
            f"{FEWEST_ITERATIONS} are the fewest",
            f"give --minutes {enough:g} or more, or a smaller tokens_per_iter",
        )

    def _pace(self, name: str, config: RunConfig, neighbour: str = "") -> float | None:
        whole = config.ramp.tokens_after(config.max_iters)
        some = config.ramp.tokens_after(min(PACE_ITERATIONS, config.max_iters))
        began = self.spent
        line = self._trained(name, None, shortened(config, min(whole, some)), neighbour=neighbour)
        if name == self.request.base_name:
            self.bases[-1] = line
        else:
            candidate = self.candidates[name]
            candidate.cost_seconds += self.spent - began
            candidate.failure = candidate.failure or line.failure
        return line.tokens_per_second

    def _speed_ratio(self, name: str, config: RunConfig) -> float:
        """Return the candidate's speed over the base's, by turns: an error in it would be in every pair."""
        ratios: list[float] = []
        for turn in range(PACE_TURNS):
            base = self._pace(self.request.base_name, self.request.base, f"{digest_of(config)} {turn}")
            own = self._pace(name, config, f"{digest_of(self.request.base)} {turn}")
            if base is None or own is None:
                return 1.0
            ratios.append(own / base)
        return statistics.median(ratios)

    def _decide(self) -> None:
        for pair in range(self.request.rules.pairs):
            waiting = still_trained(list(self.candidates.values()), pair)
            if not waiting:
                break
            while (made := sum(each >= 0 for each in self.bases)) < self._bases_needed(pair):
                self._base(made)
            for candidate in waiting:
                self._pair(candidate, pair)

    def _bases_needed(self, pair: int) -> int:
        """For the floor, and as the base's side of this pair. Of speeds two make one difference."""
        if self.paired_in_time:
            return 2 * FEWEST_FOR_FLOOR
        return max(pair + 1, min(FEWEST_FOR_FLOOR, self.request.rules.pairs))

    def _base(self, pair: int) -> TrainingLine:
        name, seed, neighbour = self.request.base_name, pair, ""
        if self.paired_in_time:  # two of each seed, one right after the other
            seed, neighbour = pair // 2, f"{self._day} alike {pair}"
        line = self._trained(name, pair, _seeded(self.lengths[name], seed), neighbour=neighbour)
        if line.failure is not None:
            raise RunFailed(f"the base {name} cannot be trained: {line.failure}")
        self.bases[pair] = line
        return line

    def _pair(self, candidate: CandidateState, pair: int) -> None:
        began = self.spent
        if self.paired_in_time:
            base, line = self._neighbours(candidate, pair)
        else:
            base = self.bases[pair]
            config = _seeded(self.lengths[candidate.name], pair)
            line = self._trained(candidate.name, pair, config, beside=base, candidate=candidate)
        candidate.cost_seconds += self.spent - began
        candidate.failure = candidate.failure or line.failure
        candidate.stopped = line.stopped_at_iteration
        if line.failure is None and line.stopped_at_iteration is None:
            candidate.improvements.append(
                improvement(
                    self.request.metric, _value(base, self.request.metric), _value(line, self.request.metric)
                )
            )
        floor = self._floor()
        assert floor is not None
        candidate.look(floor)
        if candidate.is_decided:
            self._conclude(candidate)

    def _neighbours(self, candidate: CandidateState, pair: int) -> tuple[TrainingLine, TrainingLine]:
        """Return two trainings, one right after the other, in turns the base and the candidate first."""
        names = [self.request.base_name, candidate.name]
        found: dict[str, TrainingLine] = {}
        for name in names if pair % 2 == 0 else reversed(names):
            other = self.request.base if name == candidate.name else self.request.candidates[candidate.name]
            neighbour = f"{self._day} {digest_of(other)} {pair}"
            found[name] = self._trained(name, pair, _seeded(self.lengths[name], pair), neighbour=neighbour)
        base = found[self.request.base_name]
        if base.failure is not None:
            raise RunFailed(f"the base {self.request.base_name} cannot be trained: {base.failure}")
        return base, found[candidate.name]

    @property
    def _day(self) -> int:
        """A speed of another day is of another machine, as far as one knows."""
        return int(self.bench.now() // 86_400)

    def _conclude(self, candidate: CandidateState) -> None:
        judged = candidate.judged()
        found, request = judged.improvement, self.request
        line = VerdictLine(
            at=self.bench.now(),
            base=request.base_name,
            candidate=candidate.name,
            changes=changes_of(request.base, request.candidates[candidate.name]),
            metric=request.metric,
            equal=request.equal,
            minutes=request.minutes,
            call=judged.call,
            improvement=None if found is None else found.value,
            low=None if found is None else found.low,
            high=None if found is None else found.high,
            pairs=judged.pairs,
            cost_seconds=judged.cost_seconds,
            n_layer=request.base.n_layer,
            base_digest=digest_of(request.base),
        )
        if candidate.cost_seconds or not self.journal.has_verdict(line):
            self.journal.keep(line)
        self.watch(judged)

    def _floor(self) -> NoiseFloor | None:
        lines = [line for pair, line in self.bases.items() if pair >= 0]
        if self.paired_in_time:
            speeds = [_value(line, self.request.metric) for line in lines]
            return floor_of_pairs([math.log(b / a) for a, b in zip(speeds[::2], speeds[1::2], strict=False)])
        return floor_of([_value(line, self.request.metric) for line in lines], self.request.metric)

    def _floor_of_training_loss(self) -> NoiseFloor | None:
        losses = [line.train_loss for pair, line in self.bases.items() if pair >= 0]
        return floor_of([each for each in losses if each is not None], "val_loss")

    def _trained(
        self,
        name: str,
        pair: int | None,
        config: RunConfig,
        beside: TrainingLine | None = None,
        neighbour: str = "",
        candidate: CandidateState | None = None,
    ) -> TrainingLine:
        """Return the training of a config, of the journal or made now. `beside` is the base's."""
        tokens = None if config.dataset == EMBEDDED else vocabulary_of(config).train_tokens
        known = self.journal.trained(config, tokens, neighbour)
        if known is not None and _counts(known, beside):
            self.reused += 1
            return known
        self.watch(TrainingBegan(name, pair, config.max_iters))
        began = self.bench.clock()
        with tempfile.TemporaryDirectory(prefix="nanodyno-judge-") as place:
            folder = Path(place) / "run"
            request = ShortTraining(config=config, folder=folder)
            stopped: int | None = None
            answer: Trained | Failure | None = None
            try:
                answer = self.train(request, self._watcher(config, folder, beside, candidate))
            except ClearLoser as loser:
                stopped = loser.iteration
        cost = self.bench.clock() - began
        self.spent += cost
        trained = answer if isinstance(answer, Trained) else None
        line = TrainingLine(
            config=config,
            train_tokens=tokens,
            cost_seconds=cost,
            neighbour=neighbour,
            val_loss=trained and trained.val_loss,
            train_loss=trained and trained.train_loss,
            tokens_per_second=trained and trained.tokens_per_second,
            failure=answer.words if isinstance(answer, Failure) else None,
            fails_again=isinstance(answer, Failure) and answer.reason in ("error", "refused"),
            stopped_at_iteration=stopped,
            stopped_beside=None if stopped is None or beside is None else beside.train_loss,
        )
        self.journal.keep(line)
        return line

    def _watcher(
        self, config: RunConfig, folder: Path, beside: TrainingLine | None, candidate: CandidateState | None
    ) -> Watch:
        ahead = [round(share * config.max_iters) for share in LOOKED_AT]
        is_long = 60 * self.request.minutes >= WORTH_STOPPING_SECONDS
        may_win = candidate is not None and sum(candidate.improvements) > 0
        # A training loss with dropout is no measure of the val loss.
        alike = config.dropout == self.request.base.dropout
        base = None if beside is None or may_win or not alike else beside.train_loss

        def watch(_: Child, iteration: int | None) -> None:
            if iteration is None:
                return
            self.watch(TrainingReached(iteration + 1))
            while is_long and base is not None and ahead and iteration >= ahead[0]:
                look, floor = ahead.pop(0), self._floor_of_training_loss()
                if floor is not None and self._is_lost(folder, look, base, floor):
                    raise ClearLoser(look)

        return watch

    def _is_lost(self, folder: Path, look: int, base: float, floor: NoiseFloor) -> bool:
        """By a forecast of its training loss under the rest of its schedule, beside the base's at its end. It
        is of just the iterations until the look, so that it does not depend on when progress is reported."""
        with suppress(NanodynoError, OSError):
            account = account_of(read_run(folder))
            seen = tuple(step for step in account.steps if step.iteration < look)
            made = forecast(replace(account, steps=seen, evals=()), ForecastQuestion(), None)
            if made.final is not None:
                return is_clear_loser(made.final.median, made.final.low, base, floor)
        return False


def _counts(known: TrainingLine, beside: TrainingLine | None) -> bool:
    """Return whether an earlier training need not be made again. One that was stopped as a clear loser beside
    a base is one beside any that ended as low."""
    if known.stopped_at_iteration is not None:
        base, before = beside and beside.train_loss, known.stopped_beside
        return base is not None and before is not None and base <= before
    return known.failure is None or known.fails_again


def changes_of(base: RunConfig, candidate: RunConfig) -> dict[str, object]:
    """Return the settings of a candidate that are not the base's, as JSON has them."""
    values = candidate.model_dump(mode="json")
    return {key: values[key] for key, value in candidate if getattr(base, key) != value}


def _changes_speed(base: RunConfig, candidate: RunConfig) -> bool:
    """Return whether any of the changes can affect the time of an iteration."""
    before = base.model_dump()
    changes = [
        (key, before[key], value) for key, value in candidate.model_dump().items() if before[key] != value
    ]
    return any(moves_speed(*each) for each in changes if each[0] in SETTINGS)


def _value(line: TrainingLine, metric: JudgeMetric) -> float:
    value = line.val_loss if metric == "val_loss" else line.tokens_per_second
    assert value is not None, "only trainings that came to their end are compared"
    return value


def _seeded(config: RunConfig, pair: int) -> RunConfig:
    return config.model_copy(update={"seed": config.seed + pair})


def _flops(config: RunConfig) -> int:
    vocabulary = vocabulary_of(config)
    return flops_per_token(config.model_shape(vocabulary.model), vocabulary.data)


def _refuse_unlike_data(request: JudgeRequest) -> None:
    """Losses of other text or other tokens do not compare."""
    refuse_without_data(request.base)
    if not request.candidates:
        raise NanodynoError("there is no candidate", "name a change: nanodyno judge demo demo,muon_lr=6e-3")
    for name, config in request.candidates.items():
        unlike = [
            key
            for key in ("dataset", "tokenizer", "eval_tokens")
            if getattr(config, key) != getattr(request.base, key)
        ]
        if unlike and request.metric == "val_loss":
            raise NanodynoError(
                f"{name} has another {unlike[0]}, so val losses do not compare",
                f"leave {unlike[0]} as in {request.base_name}, or use --metric tokens_per_second",
            )
        if config == request.base:
            raise NanodynoError(f"{name} is the base itself", "change at least one setting")


def at_size(config: RunConfig, depth: int) -> RunConfig:
    """Return the config at another depth, with heads of its own size and about its own proportion."""
    if depth == config.n_layer:
        return config
    size = config.n_embd // config.n_head
    heads = max(1, round(config.n_head * depth / config.n_layer))
    sizes: dict[str, object] = {"n_layer": depth, "n_embd": heads * size, "n_head": heads}
    if config.n_kv_head is not None:
        most = max(1, round(config.n_kv_head * depth / config.n_layer))
        sizes["n_kv_head"] = max(each for each in range(1, heads + 1) if heads % each == 0 and each <= most)
    return changed(config, **sizes)
