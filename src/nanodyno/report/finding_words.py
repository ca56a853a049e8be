"""What audits and comparisons found, in words: a template a code, whose numbers are shown by their names."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nanodyno.analysis.findings import Finding
from nanodyno.report import quantities as q

TEMPLATES: dict[str, str] = {
    "model-from-numbers": (
        "{run}: its MFU, time and tokens stand for {flops_per_token} per token by nanoGPT's formula, "
        "which fits {fits} (with nanoGPT's vocabulary of 50,304 and no biases, unless told otherwise)"
    ),
    "model-from-count": (
        "{run}: its number of parameters fits {fits} (without biases, unless told otherwise)"
    ),
    "mfu-of-another-peak": (
        "{run}: its printed MFU stands for {flops_per_token} per token against an A100, where the model "
        "has {expected}: it was reckoned against {peak}, or by another formula"
    ),
    "tokens-contradict": (
        "{run}: it says {told_tokens} tokens per iteration, and its settings make {computed_tokens}"
    ),
    "mfu-above-one": "{run}: an MFU of {mfu} is more than a card can do: the peak is not this card's",
    "rate-impossible": (
        "{run} would have reached {flops_per_second}, {share} of the {peak} of the {card}: it was another "
        "card, or the model or the times are not what is told"
    ),
    "share-of-card": (
        "{run} reached {share} of the {card}'s peak ({flops_per_second} of {peak}, exact causal FLOPs)"
    ),
    "cards-by-rate": (
        "{run} reached {flops_per_second} (exact causal FLOPs), which is beyond {excluded_count} GeForce "
        "RTX cards{excluded}{able}"
    ),
    "mfu-against-a100": (
        "{run}: the printed MFU of {mfu} is against an A100's 312 TFLOP/s, as nanoGPT's always is; it "
        "says nothing about the card that ran it"
    ),
    "mfu-poisoned": (
        "{run}: {iterations} iterations hold an evaluation or a checkpoint (up to {longest_seconds} "
        "against {seconds}); nanoGPT averages them in, which lowers its MFU by up to {lowered_by} of "
        "itself"
    ),
    "perplexity-as-loss": (
        "{run}: a val loss of {told_loss} would be worse than guessing (ln {vocabulary} = {guessing}): it "
        "is a perplexity, of a loss of ln {told_loss} = {loss}"
    ),
    "not-a-number": "{run}: {count} of its losses are not a number",
    "loss-too-low": (
        "{run}: a val loss of {loss} after {tokens} tokens is below what a published law gives "
        "{parameters} parameters ({law}): val text among the training text, another tokenizer, or other "
        "data"
    ),
    "another-schedule": (
        "{run}: taken up again at iteration {iteration}, its learning rate went from {before} to {after}: "
        "another schedule from there on"
    ),
    "hours-to-tokens": "{run} would take {hours} hours to {tokens} tokens ({iterations} iterations)",
    "beside-public-curve": (
        "{run} stands at {loss} after {tokens} tokens, beside {public} of {curve}, a public run of its "
        "size: {difference}. That one trained on {data} (here: {own_data}) with a learning rate of "
        "{learning_rate} (here: {own_learning_rate}) and {warmup_iters} iterations of warm-up, so this "
        "places the run and is no verdict"
    ),
    "same-effective-batch": "both train {tokens_per_iter} tokens per iteration{split_changed}",
    "steps-unchanged": (
        "a billion tokens are {steps_per_billion} optimiser steps in both: none was halved or doubled"
    ),
    "effective-batch-changed": (
        "the tokens of an iteration went from {tokens_before} to {tokens_after}: equal iterations are not "
        "equal training, and losses compare at equal tokens"
    ),
    "same-speed": (
        "{run} and {other} train equally fast within 1% ({tokens_per_second_0} and {tokens_per_second_1} "
        "tokens per second)"
    ),
    "throughput-fell-rate-rose": (
        "{other} trains {throughput_ratio} {run} ({tokens_per_second_1} against {tokens_per_second_0}) "
        "and does {rate_ratio} arithmetic ({flops_per_second_1} against {flops_per_second_0}): a token of "
        "its model is {work_ratio} times the work, with {parameters_ratio} times the parameters"
    ),
    "throughput-rose-rate-fell": (
        "{other} trains {throughput_ratio} {run} ({tokens_per_second_1} against {tokens_per_second_0}) "
        "though it does {rate_ratio} arithmetic ({flops_per_second_1} against {flops_per_second_0}): a "
        "token of its model is {work_ratio} times the work, with {parameters_ratio} times the parameters"
    ),
    "throughput-changed": (
        "{other} trains {throughput_ratio} {run} ({tokens_per_second_1} against {tokens_per_second_0})"
    ),
    "nothing-in-common": "nothing that both {run} and {other} tell can be compared",
    "no-change": "no setting that both tell differs",
    "confounded": "{count} settings changed at once ({changed}){speed}{loss_keys}",
    "one-change": (
        "one thing changed ({changed}), so a difference between the runs is its, or chance: two runs of "
        "the same settings differ too"
    ),
    "settings-unknown": "not told by both, so they may have changed as well: {keys}",
    "no-common-loss": "no val loss of the two belongs to the same amount of training",
    "losses-on-other-data": "the val losses, {losses} at {at}, are of different text: no comparison",
    "losses-of-different-models": (
        "the val losses, {losses} at {at}, belong to models of different size: their difference of "
        "{difference} is no one setting's"
    ),
    "no-evidence-for-learning-rate": (
        "that the learning rate went from {before} to {after} is not shown to have helped or hurt: the "
        "val losses, {losses} at {at}, belong to different models"
    ),
    "same-loss": "the val losses are the same: {losses} at {at}",
    "loss-noise-unknown": (
        "the val losses, {losses} at {at}, differ by {difference}; there are too few evaluations to say "
        "how much of that is noise"
    ),
    "losses-within-noise": (
        "the val losses, {losses} at {at}, differ by no more than evaluations scatter: no difference shown"
    ),
    "losses-apart": (
        "the val losses, {losses} at {at}, differ by {difference}, more than evaluations scatter"
    ),
    "next-measure-apart": (
        "to learn which change did what, measure every combination on your card: nanodyno attribute {run} "
        "{other}"
    ),
    "next-name-the-card": "name the card to see the share of its peak: nanodyno import ... --gpu NAME",
    "next-evaluate-more": (
        "evaluate more often (eval_interval), so that losses meet at equal tokens and their noise can be "
        "judged"
    ),
}
UNKNOWN = "not known"


PAIRED = ("tokens_per_second", "flops_per_second")
"""Of both runs, where a finding is about two."""


def words(finding: Finding) -> str:
    numbers: dict[str, Any] = dict(finding.numbers)
    if "at" in numbers:
        numbers["at"] = place(numbers.pop("axis"), numbers["at"])
    for name in PAIRED:
        if isinstance(numbers.get(name), list):
            before, after = numbers.pop(name)
            numbers |= {f"{name}_0": before, f"{name}_1": after}
    shown = {
        name: UNKNOWN
        if value is None
        else _FORMATS.get(name.removesuffix("_0").removesuffix("_1"), _plain)(value)
        for name, value in numbers.items()
    }
    return TEMPLATES[finding.code].format(run=finding.runs[0], other=finding.runs[-1], **shown)


def place(axis: str, at: float) -> str:
    """A place on an axis of training."""
    return {
        "iterations": f"iteration {at:,.0f}",
        "tokens": f"{q.count(at)} tokens",
        "seconds": q.duration(at),
        "flops": f"{at:.3g} FLOP",
    }[axis]


def listed(items: Sequence[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else ", ".join(str(each) for each in value)


def _fits(fits: Sequence[Mapping[str, Any]]) -> str:
    shapes = [
        f"{fit['n_layer']} layers of {fit['n_embd']}, {q.count(fit['parameters'])} parameters" for fit in fits
    ]
    return "; or ".join(shapes)


def _moving(what: str) -> Callable[[Any], str]:
    """Of the keys that can move it, where there are several; one alone is not confounded."""

    def shown(keys: Sequence[str]) -> str:
        if len(keys) < 2:
            return ""
        return f"; {listed(keys)} can each move the {what}, so these runs cannot say which of them did"

    return shown


def _able(cards: Sequence[Mapping[str, Any]]) -> str:
    if not cards:
        return ""
    shares = ", ".join(f"{each['card']} {each['share']:.0%}" for each in cards)
    return f". Of the peak of those that could, slowest first: {shares}"


def _excluded(cards: Sequence[str]) -> str:
    return f": it was no {', no '.join(cards)}" if cards else ""


def _tokens_ratio(ratio: float) -> str:
    if ratio >= 2:
        return f"{ratio:.2f} times the tokens per second of"
    return f"{abs(ratio - 1):.1%} {'more' if ratio > 1 else 'fewer'} tokens per second than"


def _work_ratio(ratio: float) -> str:
    return (
        f"{ratio:.2f} times the" if ratio >= 2 else f"{abs(ratio - 1):.1%} {'more' if ratio > 1 else 'less'}"
    )


def _loss(value: float) -> str:
    return f"{value:.4f}"


def _losses(values: Sequence[float]) -> str:
    return listed([_loss(value) for value in values])


_FORMATS: dict[str, Callable[[Any], str]] = {
    "able": _able,
    "card": str,
    "computed_tokens": q.rate,
    "difference": lambda value: f"{value:+.4f}",
    "excluded": _excluded,
    "expected": lambda value: f"{value / 1e6:.1f} MFLOP",
    "fits": _fits,
    "flops_per_second": q.flop_rate,
    "flops_per_token": lambda value: f"{value / 1e6:.1f} MFLOP",
    "guessing": lambda value: f"{value:.2f}",
    "hours": lambda value: f"{value:.1f}",
    "law": lambda value: f"{value:.3f}",
    "longest_seconds": q.duration,
    "loss": _loss,
    "loss_keys": _moving("loss"),
    "losses": _losses,
    "lowered_by": q.percent,
    "mfu": lambda value: f"{value:.1%}",
    "parameters": q.count,
    "parameters_ratio": lambda value: f"{value:.2f}",
    "peak": q.flop_rate,
    "public": _loss,
    "rate_ratio": _work_ratio,
    "seconds": q.duration,
    "share": lambda value: f"{value:.0%}" if value > 1 else q.percent(value),
    "speed": _moving("speed"),
    "split_changed": lambda value: (
        ": micro-batch and accumulation changed, their product did not" if value else ""
    ),
    "steps_per_billion": q.rate,
    "throughput_ratio": _tokens_ratio,
    "told_loss": lambda value: f"{value:.2f}",
    "told_tokens": q.rate,
    "tokens": q.count,
    "tokens_after": q.rate,
    "tokens_before": q.rate,
    "tokens_per_iter": q.rate,
    "tokens_per_second": q.rate,
    "work_ratio": lambda value: f"{value:.2f}",
}
