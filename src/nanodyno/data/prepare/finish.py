"""The end of a preparation: the manifest of all its parts, and what is told of them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nanodyno.data.manifest import FORMAT, MANIFEST, VERSION
from nanodyno.data.prepare.parts import PartRecord
from nanodyno.data.prepare.plan import PreparationPlan, val_rule, write_aside
from nanodyno.data.shards import DTYPES, SPLITS, Dataset, dataset_from_manifest
from nanodyno.errors import NanodynoError
from nanodyno.records.preparation import PreparationRecord


class EmptySplit(NanodynoError):
    """There is nothing to train on, or nothing to validate with."""


def finish(folder: Path, plan: PreparationPlan, records: Sequence[PartRecord]) -> Dataset:
    """Write the manifest; only now is the folder a dataset."""
    manifest = _manifest(plan, records)
    for split in SPLITS:
        if not manifest["splits"][split] and not (split == "val" and plan.val == 0):
            raise EmptySplit(f"no document went into the {split} split", _empty_hint(split, plan, records))
    write_aside(folder / MANIFEST, json.dumps(manifest, indent=1) + "\n")
    return dataset_from_manifest(folder, manifest)


def summary(
    dataset: Dataset,
    plan: PreparationPlan,
    records: Sequence[PartRecord],
    repaired: int,
    new_tokens: int,
    seconds: float,
) -> PreparationRecord:
    shards = {split: [r.shards[split] for r in records if split in r.shards] for split in SPLITS}
    tokens = sum(record.tokens for record in records)
    return PreparationRecord(
        folder=dataset.folder,
        source=plan.source,
        tokenizer=plan.tokenizer,
        vocab_size=plan.vocab_size,
        dtype=plan.dtype,
        fingerprint=dataset.fingerprint,
        inputs=len({record.number for record in records}),
        bad_inputs=tuple(record.bad for record in records if record.bad),
        train_tokens=sum(shard.tokens for shard in shards["train"]),
        val_tokens=sum(shard.tokens for shard in shards["val"]),
        train_documents=sum(shard.documents for shard in shards["train"]),
        val_documents=sum(shard.documents for shard in shards["val"]),
        shards=sum(map(len, shards.values())),
        bytes=tokens * DTYPES[plan.dtype].itemsize,
        repaired_parts=repaired,
        new_tokens=new_tokens,
        seconds=seconds,
        **_counts(records),
    )


def _manifest(plan: PreparationPlan, records: Sequence[PartRecord]) -> dict[str, Any]:
    used = sorted({record.number for record in records})
    return {
        "format": FORMAT,
        "version": VERSION,
        "tokenizer": plan.tokenizer,
        "tokenizer_sha256": plan.tokenizer_sha256,
        "vocab_size": plan.vocab_size,
        "end_of_text": plan.end_of_text,
        "dtype": plan.dtype,
        "source": {
            "name": plan.source,
            "inputs": [_reported_input(plan, number) for number in used],
            "bad_inputs": [record.bad for record in records if record.bad],
            "text_column": plan.text_column,
            "split": plan.split,
            "min_score": plan.min_score,
            "dedup": plan.dedup,
            "tokens": plan.tokens,
            **_counts(records),
        },
        "val_rule": val_rule(plan),
        "splits": {
            split: [
                {**record.shards[split].model_dump(exclude_none=True), "input": record.input}
                for record in records
                if split in record.shards
            ]
            for split in SPLITS
        },
    }


def _reported_input(plan: PreparationPlan, number: int) -> dict[str, Any]:
    given = plan.inputs[number]
    return {"name": given.name, "bytes": given.bytes, "files": max(1, len(given.members))}


def _counts(records: Sequence[PartRecord]) -> dict[str, int]:
    return {
        "empty": sum(record.empty for record in records),
        "low_score": sum(record.low_score for record in records),
        "broken": sum(record.broken for record in records),
        "duplicates": sum(len(record.duplicates) for record in records),
        "invalid_utf8": sum(record.invalid_utf8 for record in records),
    }


def _empty_hint(split: str, plan: PreparationPlan, records: Sequence[PartRecord]) -> str:
    documents = sum(record.documents for record in records)
    if documents == 0:
        return "every row was dropped: see the text column, --min-score and the files themselves"
    there = "there is one document" if documents == 1 else f"there are {documents:,} documents"
    has_whole_texts = plan.split == "file" and any(given.members for given in plan.inputs)
    ways = ["--split blank-lines makes one of every paragraph"] if has_whole_texts else []
    if documents > 1:
        ways.append(f"{'raise' if split == 'val' else 'lower'} --val, which is {plan.val:g}")
    return f"{there}: {', or '.join(ways) or 'a second one is needed'}"
