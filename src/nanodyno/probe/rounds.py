"""What is asked of a bench: one visit of one config, or rounds until configs are told apart."""

from collections.abc import Iterator

from nanodyno.analysis.budget import Budget, readings
from nanodyno.analysis.probes import visits_of
from nanodyno.analysis.repeats import Visit
from nanodyno.probe.bench import Bench, Plan
from nanodyno.probe.process import unless_refused
from nanodyno.probe.repetition import ProbeJob
from nanodyno.records.probe import ProbeResult, WatchProbe


def probe(job: ProbeJob, plan: Plan | None = None, watch: WatchProbe = lambda _: None) -> ProbeResult:
    """Measure one config in one process; raise where its settings cannot be had here."""
    with Bench({"": job}, plan or Plan(), watch) as bench:
        bench.round(0, [""])
        return unless_refused(bench.results()[""])


def measure_against(bench: Bench, reference: str, budget: Budget, margin: float) -> None:
    """Rounds A B, B A, ... until every config is told apart from the reference, tied, or the budget spent.

    With a lone config, as many rounds as the budget has.
    """
    for _ in readings(_rounds(bench, budget), budget, reference=reference, margin=margin):
        pass


def _rounds(bench: Bench, budget: Budget) -> Iterator[list[Visit]]:
    several = len(bench.running()) > 1
    for number in range(budget.most_rounds):
        names = bench.running()
        lonely = several and len(names) == 1  # the others have failed, and there is nothing to compare
        if not names or (lonely and number >= budget.looks[0]):
            return
        bench.round(number, names if number % 2 == 0 else names[::-1])
        yield [visit for visit in visits_of(bench.results()) if visit.round == number]
