"""An attribution as a document for programs."""

from nanodyno.analysis.attribution import Attribution, Known
from nanodyno.analysis.attribution_findings import attribution_findings
from nanodyno.analysis.effects import Effect, is_precise
from nanodyno.analysis.shapley import Combination, along
from nanodyno.report.document import as_document


def attribution_document(found: Attribution) -> dict[str, object]:
    """Under the names of the code, for programs. Effects are of logarithms, or of losses as they are."""
    effects = found.look.effects
    names = [factor.name for factor in found.design.factors]
    return {
        "runs": list(found.names),
        "metric": found.metric,
        "scale": "log" if found.on_logs else "nats",
        "machine": found.machine.model_dump(mode="json"),
        "memory_limit_bytes": found.memory_limit_bytes,
        "changes": [
            {"name": each.name, "before": dict(each.before), "after": dict(each.after)}
            for each in found.design.factors
        ],
        "combinations": [
            _combination_document(found, combination, known)
            for combination, known in found.combinations.items()
        ],
        "difference": _effect_document(effects.total),
        "contributions": {
            name: _effect_document(each) for name, each in zip(names, effects.parts, strict=False)
        },
        "screened": effects.screened,
        "remainder": _effect_document(effects.left_over),
        "steps": [
            {
                "from": found.design.settings(combination),
                "change": names[factor],
                **(_effect_document(each) or {}),
            }
            for (combination, factor), each in effects.steps.items()
        ],
        "interactions": [
            {"pairs": [[names[one], names[other]] for one, other in chain], **(_effect_document(each) or {})}
            for chain, each in effects.pairs.items()
        ],
        "paths": [
            [
                {"change": names[factor], "effect": effects.steps[at, factor].interval.value}
                for at, factor in zip(along(path), path, strict=False)
            ]
            for path in effects.paths()
        ],
        "level": found.look.level,
        "rounds": len(found.look.kept),
        "precise": is_precise(effects, found.rules.precision),
        "findings": [as_document(each) for each in attribution_findings(found)],
        "spent_seconds": found.spent_seconds,
        "budget_seconds": found.budget_seconds,
        "interrupted": found.interrupted,
        "notes": list(found.notes),
    }


def _effect_document(effect: Effect | None) -> dict[str, object] | None:
    return None if effect is None else {**effect.interval.document(), "verdict": effect.call}


def _combination_document(found: Attribution, combination: Combination, known: Known) -> dict[str, object]:
    summary = known.summary
    return {
        "settings": found.design.settings(combination),
        "value": found.value(combination),
        "missing": None if known.missing is None else as_document(known.missing),
        "summary": None if summary is None else as_document(summary),
        "memory": None if known.measured is None else known.measured.memory.model_dump(mode="json"),
        "val_losses": list(known.losses),
    }
