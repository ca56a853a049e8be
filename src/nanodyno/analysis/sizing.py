"""Which model to train in so many hours on a card: the size whose loss a law expects to be the lowest.

Of every size the cost model says how fast its fastest micro-batch is that fits, which makes tokens of the
hours, and a law (forecast_size.py) what loss so many parameters reach with so many tokens. All is predicted.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from nanodyno.analysis.account import OF_GPT2
from nanodyno.analysis.forecast_size import SizeLaw, law_for
from nanodyno.analysis.sizing_rules import batch_for, course_for, ramp_for, training_flops
from nanodyno.config import ConfigError, RunConfig, build_config, keys_led_by
from nanodyno.costs.parameters import parameters
from nanodyno.costs.plan import Candidate, Plan, Wishes, make_plan
from nanodyno.costs.target import GIB, Target
from nanodyno.costs.time import IterationTime
from nanodyno.errors import NanodynoError

DEPTHS = range(4, 33, 2)
WIDTH_PER_LAYER = 64
"""So that 12 layers are 768 wide, as in GPT-2."""
TRAINING_SHARE = 0.95
"""Of the hours; the rest goes to compilation, evaluations and saves."""
NEARLY = 1 / 1.01
"""Of the fastest: within 1% the smallest micro-batch is taken, as `tune` does."""
FIRST_BATCH = 131_072
"""Tokens per iteration that speeds are looked at with, before there are tokens to reckon a batch by."""
FEWEST_TOKENS = 100_000_000
"""That a loss is told for: with fewer the law, fitted to more, comes to expect more than a guess has."""
SHORTEST_BLOCK = 64
OF_THE_SIZE = ("n_layer", *keys_led_by("n_embd"))
OF_THE_BATCH = {*keys_led_by("tokens_per_iter")}

Values = Mapping[str, object]


@dataclass(frozen=True)
class Wanted:
    """A recipe for a card. What its values leave out is chosen."""

    name: str
    values: Values
    target: Target
    vocab_size: int
    data_vocab_size: int
    """Of the tokenizer; the model's may be padded."""

    def config(self, chosen: Values) -> RunConfig:
        return build_config({**chosen, **self.values})


@dataclass(frozen=True)
class Size:
    """A model as it would be trained in the hours."""

    settings: Values
    config: RunConfig
    parameters: int
    """Without tables that are mixed into values, of which a law of sizes knows nothing."""
    tokens: int
    tokens_per_second: float
    memory_bytes: int
    fits: bool
    law: SizeLaw


@dataclass(frozen=True)
class Choice:
    hours: float
    sizes: tuple[Size, ...]
    """From the smallest; some may not fit."""
    chosen: Size
    known_tokenizer: bool
    """Whether the law's losses are in the tokens of this one."""

    @property
    def best(self) -> Size:
        """What would be chosen if memory did not count."""
        return _lowest(self.sizes)

    @property
    def tokens(self) -> int:
        """That the chosen one will see: where max_iters is given, not those of the hours."""
        config = self.chosen.config
        return config.ramp.tokens_after(config.max_iters)

    @property
    def expected(self) -> SizeLaw | None:
        """Of those tokens; None where the law knows nothing of so few, or of such tokens."""
        if not self.known_tokenizer or self.tokens < FEWEST_TOKENS:
            return None
        return law_for(self.chosen.parameters, self.tokens, self.chosen.config.dataset)

    @property
    def in_proportion(self) -> bool:
        """As models are to which laws of sizes were fitted: the law itself knows no shape."""
        config = self.chosen.config
        return config.n_embd == WIDTH_PER_LAYER * config.n_layer

    @property
    def shown(self) -> tuple[Size, ...]:
        """The chosen one with its neighbours, and the best."""
        place = self.sizes.index(self.chosen)
        near = self.sizes[max(0, place - 2) : place + 3]
        return tuple(each for each in self.sizes if each in near or each is self.best)


def choose_size(wanted: Wanted, hours: float) -> Choice:
    """Refuses a card whose speed is not known, and one on which nothing fits."""
    _refuse_unknown(wanted)
    if "gradient_accumulation_steps" in wanted.values:
        raise NanodynoError(
            f"gradient_accumulation_steps follows from the batch that is chosen for {wanted.name}",
            "give tokens_per_iter or batch_size instead",
        )
    sizes = tuple(_sizes(wanted, hours))
    fitting = [each for each in sizes if each.fits]
    if not fitting:
        raise _nothing_fits(wanted, hours, sizes[0])
    return Choice(hours, sizes, _lowest(fitting), wanted.data_vocab_size in OF_GPT2)


def fitted_batch(wanted: Wanted) -> int:
    """The micro-batch for a model that is given; refuses one that does not fit with a micro-batch of 1."""
    plan = _planned(wanted, wanted.config({"batch_size": 1}))
    found = _fastest(plan)
    if found.fits:
        return found.setup.batch_size
    raise NanodynoError(
        f"{wanted.name} needs {_gib(found.memory.total)} even with a micro-batch of 1, and "
        f"{wanted.target.name} has {_room(wanted.target)}",
        _nearest(wanted, plan.params.total),
    )


def _sizes(wanted: Wanted, hours: float) -> Iterator[Size]:
    """Of every depth, unless depth or width are given; those that make no config are passed over."""
    fault: ConfigError | None = None
    none_yet = True
    for shape in _shapes(wanted.values):
        try:
            yield _size(wanted, hours, shape)
            none_yet = False
        except ConfigError as error:
            fault = error
    if none_yet and fault is not None:
        raise fault


def _shapes(given: Values) -> list[dict[str, object]]:
    shapes = [(given.get("n_layer", depth), given.get("n_embd", depth * WIDTH_PER_LAYER)) for depth in DEPTHS]
    single = [shape for place, shape in enumerate(shapes) if shape not in shapes[:place]]
    return [{"n_layer": depth, "n_embd": width} for depth, width in single]


def _size(wanted: Wanted, hours: float, shape: Values) -> Size:
    """Looked at twice: to know its tokens, and again with the batch that they call for, which then may begin
    smaller."""
    seconds = hours * 3600 * TRAINING_SHARE
    first, time, _ = _tried(wanted, {**shape, "tokens_per_iter": FIRST_BATCH})
    batch = batch_for(training_flops(first, time.tokens_per_second * seconds))
    config, time, found = _tried(wanted, {**shape, **batch})
    if not wanted.values.keys() & OF_THE_BATCH:
        batch = ramp_for(config, time.tokens_per_second * seconds)
        config = wanted.config({**shape, **batch, "batch_size": config.batch_size})
    iterations = max(1, time.iterations_within(config.ramp, seconds))
    tokens = config.ramp.tokens_after(iterations)
    course = course_for(config, config.max_iters if "max_iters" in wanted.values else iterations, tokens)
    settings = {**shape, **batch, "batch_size": config.batch_size, **course, **wanted.values}
    counted = parameters(found.setup.shape)
    count = counted.total - counted.value_embeddings
    return Size(
        settings=settings,
        config=build_config(settings),
        parameters=count,
        tokens=tokens,
        tokens_per_second=tokens / time.of_run(config.ramp, iterations),
        memory_bytes=found.memory.total,
        fits=bool(found.fits),
        law=law_for(count, tokens, config.dataset),
    )


def _tried(wanted: Wanted, settings: Values) -> tuple[RunConfig, IterationTime, Candidate]:
    """With the fastest micro-batch that fits: the config, and what is predicted of it."""
    plan = _planned(wanted, wanted.config({**settings, "batch_size": 1}))
    found = plan.asked if "batch_size" in wanted.values else _fastest(plan)
    assert found.time is not None, "a card without a speed was refused"
    return wanted.config({**settings, "batch_size": found.setup.batch_size}), found.time, found


def _planned(wanted: Wanted, config: RunConfig) -> Plan:
    target = replace(wanted.target, memory_bytes=wanted.target.room_bytes)
    return make_plan(config, wanted.vocab_size, wanted.data_vocab_size, target, Wishes())


def _fastest(plan: Plan) -> Candidate:
    """Of those that fit the smallest that is nearly the fastest; where none does, the smallest."""
    rates = {
        each.setup.batch_size: each.time.tokens_per_second
        for each in plan.candidates
        if each.fits is not False and each.time is not None
    }
    if not rates:
        return plan.candidates[0]
    enough = NEARLY * max(rates.values())
    return next(each for each in plan.candidates if rates.get(each.setup.batch_size, 0) >= enough)


def _lowest(sizes: Sequence[Size]) -> Size:
    return min(sizes, key=lambda each: each.law.median)


def _refuse_unknown(wanted: Wanted) -> None:
    target = wanted.target
    if target.name is None:
        raise NanodynoError(
            f"{wanted.name} is chosen by the speed of a card, and there is none here",
            f"nanodyno plan {wanted.name} --gpu NAME says what one would get (for one that is in no table, "
            "name another of its speed, and its --memory-limit); nanodyno train demo needs none",
        )
    if target.card is None and target.ceilings is None:
        raise NanodynoError(
            f"{wanted.name} is chosen by the speed of the card, and {target.name}'s is not known",
            "nanodyno doctor measures it",
        )


def _nearest(wanted: Wanted, count: int) -> str:
    """The largest model of fewer parameters, otherwise the same, that fits with a micro-batch of 1.

    Where there is none, one without value embeddings.
    """
    for given in ({}, {"value_embeddings": 0}):
        fitting = [plan for plan in _smaller(wanted, given) if plan.params.total < count]
        if fitting:
            keys = {key: getattr(fitting[-1].asked.setup.shape, key) for key in OF_THE_SIZE}
            millions = f"{fitting[-1].params.total / 1e6:.1f}M parameters"
            return f"the nearest that fits: {_options({**keys, **given})}, {millions}"
    return "no smaller size of it fits either: a card with more memory is what it takes"


def _smaller(wanted: Wanted, given: Values) -> Iterator[Plan]:
    """All sizes of it that fit with a micro-batch of 1, from the smallest."""
    kept = {key: wanted.values[key] for key in wanted.values.keys() - {*OF_THE_SIZE}}
    free = replace(wanted, values={**kept, **given})
    for shape in _shapes({}):
        with suppress(ConfigError):
            plan = _planned(free, free.config({**shape, "batch_size": 1}))
            if plan.asked.fits:
                yield plan


def _options(keys: Mapping[str, object]) -> str:
    return " ".join(f"--{key}={value}" for key, value in keys.items())


def _nothing_fits(wanted: Wanted, hours: float, smallest: Size) -> NanodynoError:
    config = smallest.config
    told = (
        f"no size of {wanted.name} fits: the smallest, n_layer={config.n_layer} n_embd={config.n_embd}, "
        f"needs {_gib(smallest.memory_bytes)}, and {wanted.target.name} has {_room(wanted.target)}"
    )
    for lesser in _lesser(config):
        with suppress(ConfigError):
            if any(each.fits for each in _sizes(replace(wanted, values={**wanted.values, **lesser}), hours)):
                return NanodynoError(told, f"the nearest that fits: {_options(lesser)}")
    return NanodynoError(told, "a card with more memory is what it takes")


def _lesser(config: RunConfig) -> Iterator[dict[str, int]]:
    """Value embeddings are given up first, one by one, and then ever more of the context."""
    for fewer in reversed(range(config.value_embeddings)):
        yield {"value_embeddings": fewer}
    tables = {"value_embeddings": 0} if config.value_embeddings else {}
    block = config.block_size // 2
    while block >= SHORTEST_BLOCK:
        yield tables | {"block_size": block}
        block //= 2


def _room(target: Target) -> str:
    size, room = target.memory_bytes or 0, target.room_bytes or 0
    return f"{_gib(room)} for it ({_gib(size - room)} of its {_gib(size)} are left free)"


def _gib(size: int) -> str:
    return f"{size / GIB:.2f} GiB"
