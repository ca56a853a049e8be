"""Trainings of attribute: how each corner's schedule is cut short, and a round of them under one seed."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from nanodyno.analysis.attribution import WatchAttribute
from nanodyno.analysis.factors import with_length
from nanodyno.analysis.probes import summarise_probe
from nanodyno.analysis.shapley import Corner
from nanodyno.config import RunConfig, changed
from nanodyno.data.resolve import EMBEDDED, resolve_dataset
from nanodyno.errors import NanodynoError
from nanodyno.experiments.lesson import Learnt, LessonJob, Reached, Spoilt, teach
from nanodyno.records.attribution import TrainedRecord
from nanodyno.records.probe import Measured, ProbeProgress, ProbeResult
from nanodyno.train.job import DATA_FOLDER

Teach = Callable[[LessonJob, Callable[[Reached], None]], Learnt | Spoilt]


def refuse_without_data(config: RunConfig) -> None:
    """Before every corner fails of it. The embedded corpus is always there."""
    if config.dataset != EMBEDDED:
        resolve_dataset(config.dataset, DATA_FOLDER, config.tokenizer, config.vocab_size)


def shortened(config: RunConfig, tokens: float) -> RunConfig:
    """So many tokens, with all of its schedule; evaluated at the end alone."""
    whole = config.ramp.tokens_after(config.max_iters)
    short = with_length(config, max(1, round(config.max_iters * tokens / whole)))
    return changed(
        short,
        eval_interval=short.max_iters,
        eval_iters=None,
        log_interval=short.max_iters,
        keep_checkpoints=1,
        out_dir=None,
        init_from="scratch",
        eval_only=False,
    )


def tokens_of_each(
    configs: Mapping[Corner, RunConfig], steps: int, paces: Mapping[Corner, ProbeResult] | None
) -> dict[Corner, float]:
    """Equal tokens: `steps` of the largest batch. Equal time: as far as each comes while the slowest makes
    so many."""
    if paces is None:
        tokens = steps * max(size for config in configs.values() for size in config.ramp.sizes)
        return dict.fromkeys(configs, float(tokens))
    rates = {corner: pace_of(paces.get(corner)) for corner in configs}
    seconds = max(steps * config.tokens_per_iter / rates[corner] for corner, config in configs.items())
    return {corner: rates[corner] * seconds for corner in configs}


def pace_of(result: ProbeResult | None) -> float:
    if result is None:
        raise NanodynoError(
            "--budget was too short to take the pace of every corner, which equal time needs",
            "give more --budget, or --equal tokens",
        )
    if not isinstance(result, Measured):
        raise NanodynoError(
            "equal time needs the pace of every corner, and one could not be measured",
            "--equal tokens needs none; the same with --metric tokens_per_second says why",
        )
    return summarise_probe(result).tokens_per_second.estimate


@dataclass
class Schooling:
    """Trains corners with the seed of a round: the same weights and the same order of data in each."""

    configs: Mapping[Corner, RunConfig]
    """Already cut short."""
    names: Mapping[Corner, str]
    memory_limit_bytes: int | None
    watch: WatchAttribute
    clock: Callable[[], float]
    teach: Teach = teach

    def round(self, number: int, corners: list[Corner]) -> Iterator[TrainedRecord]:
        for corner in corners:
            config = self.configs[corner]
            config = config.model_copy(update={"seed": config.seed + number})
            began = self.clock()
            answer = self.teach(
                LessonJob(config=config, memory_limit_bytes=self.memory_limit_bytes),
                self._teller(corner, number),
            )
            learnt = isinstance(answer, Learnt)
            yield TrainedRecord(
                round=number,
                corner=corner,
                cost_seconds=self.clock() - began,
                config=config,
                val_loss=answer.val_loss if learnt else None,
                training_seconds=answer.training_seconds if learnt else None,
                words=None if learnt else answer.words,
            )

    def _teller(self, corner: Corner, number: int) -> Callable[[Reached], None]:
        def tell(reached: Reached) -> None:
            self.watch(ProbeProgress(self.names[corner], number, "measuring", reached.iteration + 1))

        return tell
