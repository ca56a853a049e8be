"""Is tune's winner the best there is? A grid measured by the same stopwatch, in as many calls as it takes.

    nanodyno tune gpt2-768 --json > tuned.json
    python benchmarks/tune_grid.py gpt2-768 --to grid.jsonl --tuned tuned.json --minutes 8
        [--memory-limit 12GB] [--points 16] [--processes 2] [--visit 10] [--KEY=VALUE ...]

At most --points candidates: every micro-batch that may fit, then other switches by their predicted speed, and
tune's winner. Each is measured in --processes processes. A call ends after --minutes and is gone on with by
the same command: every visit is a line of --to. Calls may be on different days, or cards of one kind, so
each measures the anchor (the config as it is asked for) at its beginning and after every eighth visit, and
times are taken over the anchor's in the same call. When all is measured: the grid, the regret of tune's
winner (its time over that of the grid's best, both measured here), and tune's measuring time over the grid's
(without the anchor's).
"""

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from nanodyno.analysis.asking import Ask
from nanodyno.analysis.candidates import Candidate, TuneRequest, candidates_for
from nanodyno.cli.options import bytes_of
from nanodyno.config import build_config
from nanodyno.data.resolve import vocabulary_of
from nanodyno.errors import NanodynoError
from nanodyno.experiments.ground import look_around
from nanodyno.experiments.stopwatch import BenchStopwatch, Redo, Stopwatch
from nanodyno.experiments.study import answer_of
from nanodyno.experiments.tune import allocator_limit
from nanodyno.probe.repetition import ProbeJob
from nanodyno.recipes import load_settings, override, parse_overrides
from nanodyno.records.files import GrowingFile

ANCHOR_EVERY = 8
SPARE_TRIES = 2


@dataclass(frozen=True)
class Line:
    """One visit. `seconds` is of a token; None: `why` tells."""

    call: str
    name: str
    is_anchor: bool
    seconds: float | None
    why: str | None
    cost_seconds: float


def read(path: Path) -> list[Line]:
    """A line that a kill cut short is dropped."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    return [Line(**json.loads(line)) for line in text[: text.rfind("\n") + 1].splitlines()]


def grid_points(candidates: Sequence[Candidate], most: int, winner: str | None) -> list[Candidate]:
    """Every micro-batch once, then what else is predicted to be fast; the winner in any case."""
    able = [each for each in candidates if not each.hopeless]
    plain = list({each.batch_size: each for each in reversed(able) if not each.variant}.values())
    rest = [each for each in able if each not in plain]
    chosen = [each for each in able if each.name == winner]
    points = list(dict.fromkeys(each.name for each in (*chosen, *plain, *rest)))[:most]
    return [each for each in able if each.name in points]


def next_points(points: Sequence[str], lines: Sequence[Line], processes: int) -> list[str]:
    """Those that lack a process, the ones with the fewest first."""
    made = {name: [each for each in lines if each.name == name and not each.is_anchor] for name in points}
    lacking = [name for name, each in made.items() if _is_lacking(each, processes)]
    return sorted(lacking, key=lambda name: len(made[name]))


def _is_lacking(made: Sequence[Line], processes: int) -> bool:
    """What does not fit is done; what something else kept from being measured gets another try or two."""
    measured = [line for line in made if line.seconds is not None]
    fits = not any(line.why == "out-of-memory" for line in made)
    return fits and len(measured) < processes and len(made) < processes + SPARE_TRIES


def relative_times(lines: Sequence[Line]) -> dict[str, list[float]]:
    """Over the anchor's geometric mean in the same call; a call without an anchor tells nothing."""
    anchors: dict[str, list[float]] = {}
    for line in lines:
        if line.is_anchor and line.seconds is not None:
            anchors.setdefault(line.call, []).append(line.seconds)
    found: dict[str, list[float]] = {}
    for line in lines:
        if not line.is_anchor and line.seconds is not None and line.call in anchors:
            ratio = line.seconds / statistics.geometric_mean(anchors[line.call])
            found.setdefault(line.name, []).append(ratio)
    return found


def measure(
    stopwatch: Stopwatch, file: GrowingFile, lines: list[Line], points: list[str], options: argparse.Namespace
) -> None:
    """Until nothing is lacking or the minutes are over."""
    call = time.strftime("%Y%m%dT%H%M%S")
    end = time.monotonic() + 60 * options.minutes
    repetitions = 0
    while todo := next_points(points, lines, options.processes):
        is_anchor = repetitions % ANCHOR_EVERY == 0
        name = options.anchor if is_anchor else todo[0]
        began = time.monotonic()
        ask = Ask("final", repetitions, (name,), options.repetition, math.inf)
        result = stopwatch.measure(ask, [name], end - began).get(name)
        if result is None:
            return
        answer = answer_of(0.0, {name: result}, options.place, options.candidates)
        seconds = answer.seconds.get(name)
        why = None if seconds is not None else result.kind
        lines.append(Line(call, name, is_anchor, seconds, why, time.monotonic() - began))
        file.append(json.dumps(asdict(lines[-1])))
        print(f"  {name}{' (anchor)' if is_anchor else ''}: {why or seconds}", file=sys.stderr, flush=True)
        repetitions += 1


def report(points: Sequence[str], lines: Sequence[Line], tuned: dict[str, object] | None) -> str:
    times = relative_times(lines)
    means = {name: statistics.geometric_mean(each) for name, each in times.items()}
    if not means:
        return "nothing has been measured yet"
    best = min(means, key=means.__getitem__)
    reported = ["| point | processes | time over the anchor's | over the best |", "|---|---|---|---|"]
    for name in points:
        why = next((line.why for line in lines if line.name == name and line.why), "not measured yet")
        over = f"{means[name]:.4f} | {means[name] / means[best] - 1:+.2%}" if name in means else f"{why} | -"
        reported.append(f"| {name} | {len(times.get(name, ()))} | {over} |")
    cost = sum(line.cost_seconds for line in lines if not line.is_anchor)
    reported.append(f"measuring the grid took {cost:.0f} s without the anchor")
    if tuned is not None:
        winner, spent = str(tuned["chosen"]), float(str(tuned["spent_seconds"]))
        if winner in means:
            reported.append(
                f"tune's winner {winner}: regret {means[winner] / means[best] - 1:.2%} against {best}"
            )
        reported.append(f"tune took {spent:.0f} s: {spent / cost:.2f} of the grid's time" if cost else "")
    return "\n".join(reported)


def parse_options() -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("config")
    parser.add_argument("--to", type=Path, required=True, help="a file of lines that grows with every call")
    parser.add_argument("--tuned", type=Path, help="what `nanodyno tune --json` said")
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--points", type=int, default=16)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--visit", type=float, default=10.0, help="seconds a process iterates for at most")
    parser.add_argument("--memory-limit")
    return parser.parse_known_args()


def main() -> int:
    options, rest = parse_options()
    try:
        config = build_config(override(load_settings(options.config), parse_overrides(rest)).values)
        limit = None if options.memory_limit is None else bytes_of(options.memory_limit, "--memory-limit")
        options.place = look_around(config, limit)
    except NanodynoError as error:
        print(f"{error.message}\n{error.hint or ''}", file=sys.stderr)
        return error.exit_code
    tuned = None if options.tuned is None else json.loads(options.tuned.read_text(encoding="utf-8"))
    options.candidates = candidates_for(
        TuneRequest(config, vocabulary_of(config).model), options.place.ground
    )
    points = grid_points(options.candidates, options.points, None if tuned is None else tuned["chosen"])
    names = [each.name for each in points]
    asked = [
        each for each in options.candidates if each.batch_size == config.batch_size and not each.hopeless
    ]
    options.anchor = asked[0].name
    allowed = allocator_limit(limit, options.place)
    jobs = {
        each.name: ProbeJob(config=each.config, memory_limit_bytes=allowed) for each in (*points, *asked[:1])
    }
    lines = read(options.to)
    file = GrowingFile(options.to)
    with BenchStopwatch(jobs, lambda _: None, Redo(1, 1)) as stopwatch:
        measure(stopwatch, file, lines, names, options)
    file.close()
    print(report(names, lines, tuned))
    return 0


if __name__ == "__main__":
    sys.exit(main())
