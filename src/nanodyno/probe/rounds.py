"""What is asked of a bench: one visit of one config, or rounds until configs are told apart."""

from collections.abc import Iterator

from nanodyno.analysis.budget import Budget, readings
from nanodyno.analysis.probes import repetitions_of
from nanodyno.analysis.repeats import RepetitionTime
from nanodyno.probe.bench import Bench, ProbePlan
from nanodyno.probe.process import unless_refused
from nanodyno.probe.repetition import ProbeJob
from nanodyno.records.probe import ProbeResult, WatchProbe


def probe(job: ProbeJob, plan: ProbePlan | None = None, watch: WatchProbe = lambda _: None) -> ProbeResult:
    """Measure one config in one process; raise where its settings cannot be had here."""
    with Bench({"": job}, plan or ProbePlan(), watch) as bench:
        bench.round(0, [""])
        return unless_refused(bench.results()[""])


def measure_against(bench: Bench, reference: str, budget: Budget, margin: float) -> None:
    """Rounds A B, B A, ... until every config is told apart from the reference, tied, or the budget spent.

    With a lone config, as many rounds as the budget has.
    """
    for _ in readings(_rounds(bench, budget), budget, reference=reference, margin=margin):
        pass


def _rounds(bench: Bench, budget: Budget) -> Iterator[list[RepetitionTime]]:
    several = len(bench.running()) > 1
    for number in range(budget.most_rounds):
        names = bench.running()
        lonely = several and len(names) == 1  # the others have failed, and there is nothing to compare
        if not names or (lonely and number >= budget.looks[0]):
            return
        bench.round(number, names if number % 2 == 0 else names[::-1])
        yield [repetition for repetition in repetitions_of(bench.results()) if repetition.round == number]
