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
from nanodyno.costs.calibration import Predicted
from nanodyno.costs.plan import Costs, MicroBatchPlan
from nanodyno.costs.target import GIB, Target
from nanodyno.costs.time import IterationTime
from nanodyno.errors import NanodynoError
from nanodyno.recipes import Settings, at_any_rate

DEPTHS = range(4, 33, 2)
WIDTH_PER_LAYER = 64
"""So that 12 layers are 768 wide, as in GPT-2."""
TRAINING_SHARE = 0.95
"""Of the hours; the rest goes to compilation, evaluations and saves."""
FIRST_BATCH = 131_072
"""Tokens per iteration that speeds are looked at with, before there are tokens to reckon a batch by."""
FEWEST_TOKENS = 100_000_000
"""That a loss is told for: with fewer the law, fitted to more, comes to expect more than a guess has."""
SHORTEST_BLOCK = 64
OF_THE_SIZE = ("n_layer", *keys_led_by("n_embd"))
OF_THE_BATCH = {*keys_led_by("tokens_per_iter")}

Values = Mapping[str, object]


@dataclass(frozen=True)
class _Search:
    """A recipe on a GPU. What its values leave out is chosen."""

    name: str
    values: Values
    target: Target
    vocab_size: int
    data_vocab_size: int

    def config(self, chosen: Values) -> RunConfig:
        return build_config({**chosen, **self.values})

    def costs(self, config: RunConfig) -> Costs:
        """Of a model in the memory that is to be filled by choice."""
        target = replace(self.target, memory_bytes=self.target.room_bytes)
        return Costs(config, self.vocab_size, self.data_vocab_size, target)


@dataclass(frozen=True)
class Size:
    """A model as it would be trained in the hours."""

    settings: Values
    config: RunConfig
    parameters: int
    """Without tables that are mixed into values, of which a law of sizes knows nothing."""
    tokens: int
    tokens_per_second: Predicted
    memory_bytes: int
    fits: bool
    law: SizeLaw


@dataclass(frozen=True)
class SizeChoice:
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


def choose_size(settings: Settings, target: Target, vocab_size: int, data_vocab_size: int) -> SizeChoice:
    """Return the model to train in the settings' hours on a GPU. `data_vocab_size` is the tokenizer's; the
    model's may be padded. Refuses a GPU whose speed is not known, and one on which nothing fits."""
    values, hours = at_any_rate(settings).values, settings.hours
    assert hours is not None, f"{settings.name} is for no hours"
    search = _Search(settings.name, values, target, vocab_size, data_vocab_size)
    _refuse_unknown(search)
    if "gradient_accumulation_steps" in values:
        raise NanodynoError(
            f"gradient_accumulation_steps follows from the batch size that is chosen for {search.name}",
            "give tokens_per_iter or batch_size instead",
        )
    sizes = tuple(_sizes(search, hours))
    fitting = [each for each in sizes if each.fits]
    if not fitting:
        raise _nothing_fits(search, hours, sizes[0])
    return SizeChoice(hours, sizes, _lowest(fitting), data_vocab_size in OF_GPT2)


def fitted_batch(settings: Settings, target: Target, vocab_size: int, data_vocab_size: int) -> int:
    """Return the micro-batch for a model that is given, whatever its settings have; refuses a model that
    does not fit with a micro-batch of 1."""
    free = {key: value for key, value in at_any_rate(settings).values.items() if key != "batch_size"}
    search = _Search(settings.name, free, target, vocab_size, data_vocab_size)
    config = search.config({"batch_size": 1})
    costs = search.costs(config)
    found = costs.fastest(costs.setup(config))
    if found.fits:
        return found.setup.batch_size
    raise NanodynoError(
        f"{search.name} needs {_gib(found.memory.total)} even with a micro-batch of 1, and "
        f"{target.name} has {_room(target)}",
        _nearest(search, costs.params.total),
    )


def _sizes(search: _Search, hours: float) -> Iterator[Size]:
    """Of every depth, unless depth or width are given; those that make no config are passed over."""
    fault: ConfigError | None = None
    none_yet = True
    for shape in _shapes(search.values):
        try:
            yield _size(search, hours, shape)
            none_yet = False
        except ConfigError as error:
            fault = error
    if none_yet and fault is not None:
        raise fault


def _shapes(given: Values) -> list[dict[str, object]]:
    shapes = [(given.get("n_layer", depth), given.get("n_embd", depth * WIDTH_PER_LAYER)) for depth in DEPTHS]
    single = [shape for place, shape in enumerate(shapes) if shape not in shapes[:place]]
    return [{"n_layer": depth, "n_embd": width} for depth, width in single]


def _size(search: _Search, hours: float, shape: Values) -> Size:
    """Looked at twice: to know its tokens, and again with the batch that they call for, which then may begin
    smaller. What is predicted of its micro-batches serves both times."""
    seconds = hours * 3600 * TRAINING_SHARE
    config = search.config({**shape, "tokens_per_iter": FIRST_BATCH, "batch_size": 1})
    costs = search.costs(config)
    batch = batch_for(training_flops(config, seconds * _found(search, costs, config)[1].tokens_per_second))
    config = search.config({**shape, **batch, "batch_size": 1})
    found, time = _found(search, costs, config)
    chosen = {**shape, **batch, "batch_size": found.setup.batch_size}
    config = search.config(chosen)
    if not search.values.keys() & OF_THE_BATCH:
        batch = ramp_for(config, time.tokens_per_second * seconds)
        chosen = {**shape, **batch, "batch_size": config.batch_size}
        config = search.config(chosen)
    iterations = max(1, time.iterations_within(config.ramp, seconds))
    tokens = config.ramp.tokens_after(iterations)
    course = course_for(config, config.max_iters if "max_iters" in search.values else iterations, tokens)
    settings = {**chosen, **course, **search.values}
    count = costs.params.total - costs.params.value_embeddings
    return Size(
        settings=settings,
        config=build_config(settings),
        parameters=count,
        tokens=tokens,
        tokens_per_second=Predicted.of(
            tokens / time.of_run(config.ramp, iterations), costs.speed_error(found.setup)
        ),
        memory_bytes=found.memory.total,
        fits=bool(found.fits),
        law=law_for(count, tokens, config.dataset),
    )


def _found(search: _Search, costs: Costs, config: RunConfig) -> tuple[MicroBatchPlan, IterationTime]:
    """What is predicted of the fastest micro-batch that fits, or of the one that is given."""
    setup = costs.setup(config)
    found = costs.candidate(setup) if "batch_size" in search.values else costs.fastest(setup)
    assert found.time is not None, "a GPU without a speed was refused"
    return found, found.time


def _lowest(sizes: Sequence[Size]) -> Size:
    return min(sizes, key=lambda each: each.law.median)


def _refuse_unknown(search: _Search) -> None:
    target = search.target
    if target.name is None:
        raise NanodynoError(
            f"{search.name} depends on the GPU, and there is none here",
            f"`nanodyno plan {search.name} --gpu NAME` predicts it for a GPU in the table. For another, "
            "name one of similar speed and give --memory-limit. `nanodyno train demo` needs no GPU",
        )
    if target.gpu is None and target.ceilings is None:
        raise NanodynoError(
            f"{search.name} depends on the speed of the GPU, and that of {target.name} is unknown",
            "`nanodyno doctor` measures it",
        )


def _nearest(search: _Search, count: int) -> str:
    """The largest model of fewer parameters, otherwise the same, that fits with a micro-batch of 1.

    Where there is none, one without value embeddings.
    """
    kept = {key: search.values[key] for key in search.values.keys() - {*OF_THE_SIZE}}
    for given in ({}, {"value_embeddings": 0}):
        free = replace(search, values={**kept, **given})
        for chosen in reversed(_shapes({})):
            with suppress(ConfigError):
                config = free.config({**chosen, "batch_size": 1})
                costs = free.costs(config)
                if costs.params.total < count and costs.candidate(costs.setup(config)).fits:
                    keys = {**{key: getattr(costs.shape, key) for key in OF_THE_SIZE}, **given}
                    total = costs.params.total / 1e6
                    return f"the nearest that fits: {_options(keys)}, {total:.1f}M parameters"
    return "no smaller size of it fits either: use a GPU with more memory"


def _options(keys: Mapping[str, object]) -> str:
    return " ".join(f"--{key}={value}" for key, value in keys.items())


def _nothing_fits(search: _Search, hours: float, smallest: Size) -> NanodynoError:
    config = smallest.config
    reported = (
        f"no size of {search.name} fits: the smallest, n_layer={config.n_layer} n_embd={config.n_embd}, "
        f"needs {_gib(smallest.memory_bytes)}, and {search.target.name} has {_room(search.target)}"
    )
    for lesser in _lesser(config):
        with suppress(ConfigError):
            if any(each.fits for each in _sizes(replace(search, values={**search.values, **lesser}), hours)):
                return NanodynoError(reported, f"the nearest that fits: {_options(lesser)}")
    return NanodynoError(reported, "use a GPU with more memory")


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
