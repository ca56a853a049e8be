"""What of a preparation is there already and what is missing: the same question for resume and for verify."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

from nanodyno.data.prepare.parts import PartRecord, broken_files, read_record, record_places
from nanodyno.data.prepare.pipeline import Gap
from nanodyno.data.prepare.plan import PreparationPlan


@dataclass(frozen=True)
class State:
    """Valid parts in order, and the gaps between and after them. Damaged parts have a record, and the broken
    files are theirs."""

    records: tuple[PartRecord, ...]
    gaps: tuple[Gap, ...]
    damaged: tuple[PartRecord, ...]
    broken_files: tuple[str, ...]

    @property
    def tokens(self) -> int:
        return sum(record.tokens for record in self.records)


def state_of(folder: Path, plan: PreparationPlan, checksums: bool = False, threads: int = 1) -> State:
    """Looks at every part; with checksums, at every byte."""
    found = [record for record in _found(folder) if record.number < len(plan.inputs)]
    with ThreadPoolExecutor(threads) as pool:
        broken = list(pool.map(lambda record: broken_files(folder, record, plan.dtype, checksums), found))
    pairs = list(zip(found, (not files for files in broken), strict=True))
    items = list(_items(plan, pairs))
    end = max((index for index, item in enumerate(items) if isinstance(item, PartRecord)), default=-1)
    gaps = [replace(item, is_tail=i > end) for i, item in enumerate(items) if isinstance(item, Gap)]
    records = tuple(item for item in items if isinstance(item, PartRecord))
    damaged = tuple(record for record, is_good in pairs if not is_good)
    return State(records, tuple(gaps), damaged, tuple(file for files in broken for file in files))


def beyond_tokens(state: State, plan: PreparationPlan) -> list[PartRecord]:
    """Parts of an unfinished folder that plan.tokens may have no room for.

    A cluster makes inputs out of order and does not mind the number, so after a stretch that was never read
    there may be parts too many, and the one that reaches the number may not end with the right document.
    """
    if plan.tokens is None:
        return []
    unread = ((g.number, g.part) for g in state.gaps if g.until_row is None and g.duplicates is None)
    end = min(unread, default=(len(plan.inputs), 0))
    before = accumulate((record.tokens for record in state.records), initial=0)
    return [
        record
        for record, tokens in zip(state.records, before, strict=False)
        if (record.number, record.part) > end or tokens + record.tokens >= plan.tokens
    ]


def _found(folder: Path) -> list[PartRecord]:
    """Every record that can be read, in order."""
    read = (read_record(folder, number, part) for number, part in sorted(record_places(folder)))
    return [record for record in read if record is not None]


def _items(plan: PreparationPlan, found: Sequence[tuple[PartRecord, bool]]) -> Iterator[PartRecord | Gap]:
    """Parts and gaps in order, up to the part that reached plan.tokens when nothing before it is missing."""
    parts: list[dict[int, tuple[PartRecord, bool]]] = [{} for _ in plan.inputs]
    for record, is_good in found:
        parts[record.number][record.part] = record, is_good
    tokens, missing = 0, False
    for number, known in enumerate(parts):
        for item in _items_of(number, known):
            yield item
            missing = missing or isinstance(item, Gap)
            tokens += item.tokens if isinstance(item, PartRecord) else 0
        if plan.tokens is not None and not missing and tokens >= plan.tokens:
            return


def _items_of(number: int, known: Mapping[int, tuple[PartRecord, bool]]) -> Iterator[PartRecord | Gap]:
    gap: Gap | None = None
    part = row = 0
    while part <= max(known, default=-1):
        record, is_good = known.get(part, (None, False))
        if record is not None and is_good:
            if gap is not None:
                yield replace(gap, until_row=record.first_row)
                gap = None
            yield record
            row = record.next_row
        else:
            gap = _wider(gap or Gap(number, part, row, duplicates=frozenset()), record)
        if record is not None and record.last:
            break
        part += 1
    else:  # what follows was never read, so its duplicates are not known
        gap = replace(gap, duplicates=None) if gap else Gap(number, part, row)
    if gap is not None:
        yield gap


def _wider(gap: Gap, damaged: PartRecord | None) -> Gap:
    """The gap with one more part, whose duplicates are known when its record is."""
    if damaged is None or gap.duplicates is None:
        return replace(gap, duplicates=None)
    return replace(gap, duplicates=gap.duplicates | frozenset(damaged.duplicates))
