"""What audits and comparisons found, in words: a message a code, whose numbers are shown by their names."""

from collections.abc import Callable, Mapping
from typing import Any

from nanodyno.analysis.findings import Code, Finding
from nanodyno.report.finding_numbers import shown_numbers
from nanodyno.report.language import ENGLISH, Language, Plural, message

Numbers = Mapping[str, Any]
WORDS: dict[Code, str | Plural] = {
    "model-from-numbers": message(
        "{run}: its MFU, time and tokens stand for {flops_per_token} per token by nanoGPT's formula, "
        "which fits {fits} (with nanoGPT's vocabulary of 50,304 and no biases, unless told otherwise)"
    ),
    "model-from-count": message(
        "{run}: its number of parameters fits {fits} (without biases, unless told otherwise)"
    ),
    "mfu-of-another-peak": message(
        "{run}: its printed MFU stands for {flops_per_token} per token against an A100, where the model "
        "has {expected}: it was reckoned against {peak}, or by another formula"
    ),
    "tokens-contradict": message(
        "{run}: it says {reported_tokens} tokens per iteration, and its settings make {computed_tokens}"
    ),
    "mfu-above-one": message(
        "{run}: an MFU of {mfu} is more than a card can do: the peak is not this card's"
    ),
    "rate-impossible": message(
        "{run} would have reached {achieved_flops_per_second}, {share} of the {peak} of the {gpu}: it was "
        "another "
        "card, or the model or the times are not what is told"
    ),
    "share-of-gpu": message(
        "{run} reached {share} of the {gpu}'s peak ({achieved_flops_per_second} of {peak}, exact causal "
        "FLOPs)"
    ),
    "mfu-against-a100": message(
        "{run}: the printed MFU of {mfu} is against an A100's 312 TFLOP/s, as nanoGPT's always is; it "
        "says nothing about the card that ran it"
    ),
    "mfus-against-a100": message(
        "{runs}: the printed MFUs of {mfus} are against an A100's 312 TFLOP/s, as nanoGPT's always are; they "
        "say nothing about the cards that ran them"
    ),
    "mfu-poisoned": Plural(
        "{run}: {n} iteration holds an evaluation or a checkpoint (up to {longest_seconds} against "
        "{seconds}); nanoGPT averages it in, which lowers its MFU by up to {lowered_by} of itself",
        "{run}: {n} iterations hold an evaluation or a checkpoint (up to {longest_seconds} "
        "against {seconds}); nanoGPT averages them in, which lowers its MFU by up to {lowered_by} of "
        "itself",
        by="iterations",
    ),
    "perplexity-as-loss": message(
        "{run}: a val loss of {reported_loss} would be worse than guessing (ln {vocabulary} = {guessing}): "
        "it "
        "is a perplexity, of a loss of ln {reported_loss} = {loss}"
    ),
    "not-a-number": Plural(
        "{run}: {n} of its losses is not a number", "{run}: {n} of its losses are not a number", by="count"
    ),
    "another-schedule": message(
        "{run}: taken up again at iteration {iteration}, its learning rate went from {before} to {after}: "
        "another schedule from there on"
    ),
    "hours-to-tokens": Plural(
        "{run} would take {hours} hours to {tokens} tokens ({n} iteration)",
        "{run} would take {hours} hours to {tokens} tokens ({n} iterations)",
        by="iterations",
    ),
    "beside-public-curve": Plural(
        "{run} stands at {loss} after {tokens} tokens, beside {public} of {curve}, a public run of its "
        "size: {difference}. That one trained on {data} (here: {own_data}) with a learning rate of "
        "{learning_rate} (here: {own_learning_rate}) and {n} iteration of warm-up, so this places the run "
        "and is no verdict",
        "{run} stands at {loss} after {tokens} tokens, beside {public} of {curve}, a public run of its "
        "size: {difference}. That one trained on {data} (here: {own_data}) with a learning rate of "
        "{learning_rate} (here: {own_learning_rate}) and {n} iterations of warm-up, so this places the run "
        "and is no verdict",
        by="warmup_iters",
    ),
    "steps-unchanged": message(
        "a billion tokens are {steps_per_billion} optimiser steps in both: none was halved or doubled"
    ),
    "effective-batch-changed": message(
        "the tokens of an iteration went from {tokens_before} to {tokens_after}: equal iterations are not "
        "equal training, and losses compare at equal tokens"
    ),
    "same-speed": message(
        "{run} and {other} train equally fast within 1% ({tokens_per_second_0} and {tokens_per_second_1} "
        "tokens per second)"
    ),
    "speed-within-noise": message(
        "the speeds of {run} and {other}, {tokens_per_second_0} and {tokens_per_second_1} tokens per second, "
        "differ by no more than their iterations scatter: no difference shown"
    ),
    "nothing-in-common": message("nothing that both {run} and {other} tell can be compared"),
    "no-change": message("no setting that both tell differs"),
    "one-change": message(
        "one thing changed ({changed}), so a difference between the runs is its, or chance: two runs of "
        "the same settings differ too"
    ),
    "one-known-change": message(
        "of what both tell only {changed} differs, and {count} settings that matter are not told by both: no "
        "difference between the runs is known to be its"
    ),
    "settings-unknown": message("not told by both, so they may have changed as well: {keys}"),
    "no-common-loss": message("the two have no val losses that belong to the same amount of training"),
    "losses-on-other-data": message("the val losses, {losses} at {at}, are of different text: no comparison"),
    "losses-of-different-models": message(
        "the val losses, {losses} at {at}, belong to models of different size: their difference of "
        "{difference} is no one setting's"
    ),
    "no-evidence-for-learning-rate": message(
        "that the learning rate went from {before} to {after} is not shown to have helped or hurt: the "
        "val losses, {losses} at {at}, belong to different models"
    ),
    "same-loss": message("the val losses are the same: {losses} at {at}"),
    "loss-noise-unknown": message(
        "the val losses, {losses} at {at}, differ by {difference}; there are too few evaluations to say "
        "how much of that is noise"
    ),
    "losses-within-noise": message(
        "the val losses, {losses} at {at}, differ by no more than evaluations scatter: no difference shown"
    ),
    "losses-apart": message(
        "the val losses, {losses} at {at}, differ by {difference}, more than evaluations scatter"
    ),
    "next-measure-apart": message(
        "to learn which change did what, measure every combination on your card: nanodyno attribute {run} "
        "{other}"
    ),
    "next-name-the-gpu": message(
        "name the card to see the share of its peak: nanodyno import ... --gpu NAME"
    ),
    "next-evaluate-more": message(
        "evaluate more often (eval_interval), so that losses meet at equal tokens and their noise can be "
        "judged"
    ),
}
"""Those that are one sentence whatever their numbers; the others are below."""


def words(finding: Finding, language: Language = ENGLISH) -> str:
    shown = {
        "run": finding.runs[0],
        "other": finding.runs[-1],
        "runs": language.listed(finding.runs),
        **shown_numbers(finding.numbers, language),
    }
    reported = COMPOSED.get(finding.code)
    if reported is not None:
        return reported(finding.numbers, shown, language)
    return language.tell(WORDS[finding.code], shown, finding.numbers)


Shown = Mapping[str, str]


def _fell_and_rose(numbers: Numbers, shown: Shown, language: Language) -> str:
    if numbers["rate_ratio"] >= 2:
        return language.say(
            "{other} trains {throughput_change} fewer tokens per second than {run} ({tokens_per_second_1} "
            "against {tokens_per_second_0}) and does {rate_times} times the arithmetic "
            "({achieved_flops_per_second_1} "
            "against {achieved_flops_per_second_0}): a token of its model is {work_ratio} times the work, "
            "with "
            "{parameters_ratio} times the parameters",
            **shown,
        )
    return language.say(
        "{other} trains {throughput_change} fewer tokens per second than {run} ({tokens_per_second_1} "
        "against {tokens_per_second_0}) and does {rate_change} more arithmetic "
        "({achieved_flops_per_second_1} "
        "against {achieved_flops_per_second_0}): a token of its model is {work_ratio} times the work, with "
        "{parameters_ratio} times the parameters",
        **shown,
    )


def _rose_and_fell(numbers: Numbers, shown: Shown, language: Language) -> str:
    if numbers["throughput_ratio"] >= 2:
        return language.say(
            "{other} trains {throughput_times} times the tokens per second of {run} ({tokens_per_second_1} "
            "against {tokens_per_second_0}) though it does {rate_change} less arithmetic "
            "({achieved_flops_per_second_1} against {achieved_flops_per_second_0}): a token of its model is "
            "{work_ratio} times "
            "the work, with {parameters_ratio} times the parameters",
            **shown,
        )
    return language.say(
        "{other} trains {throughput_change} more tokens per second than {run} ({tokens_per_second_1} "
        "against {tokens_per_second_0}) though it does {rate_change} less arithmetic "
        "({achieved_flops_per_second_1} "
        "against {achieved_flops_per_second_0}): a token of its model is {work_ratio} times the work, with "
        "{parameters_ratio} times the parameters",
        **shown,
    )


def _changed_speed(numbers: Numbers, shown: Shown, language: Language) -> str:
    ratio = numbers["throughput_ratio"]
    if ratio >= 2:
        template = message(
            "{other} trains {throughput_times} times the tokens per second of {run} ({tokens_per_second_1} "
            "against {tokens_per_second_0})"
        )
    elif ratio > 1:
        template = message(
            "{other} trains {throughput_change} more tokens per second than {run} ({tokens_per_second_1} "
            "against {tokens_per_second_0})"
        )
    else:
        template = message(
            "{other} trains {throughput_change} fewer tokens per second than {run} ({tokens_per_second_1} "
            "against {tokens_per_second_0})"
        )
    return language.say(template, **shown)


def _same_batch(numbers: Numbers, shown: Shown, language: Language) -> str:
    if not numbers["split_changed"]:
        return language.say("both train {tokens_per_iter} tokens per iteration", **shown)
    return language.say(
        "both train {tokens_per_iter} tokens per iteration: micro-batch and accumulation changed, their "
        "product did not",
        **shown,
    )


def _confounded(numbers: Numbers, shown: Shown, language: Language) -> str:
    """Of the keys that can move something, where there are several; one alone is not confounded."""
    changed = Plural(
        "{n} setting changed at once ({changed})", "{n} settings changed at once ({changed})", by="count"
    )
    clauses = [language.tell(changed, shown, numbers)]
    if len(numbers["speed"]) > 1:
        clauses.append(
            language.say(
                "{keys} can each move the speed, so these runs cannot say which of them did",
                keys=language.listed(numbers["speed"]),
            )
        )
    if len(numbers["loss_keys"]) > 1:
        clauses.append(
            language.say(
                "{keys} can each move the loss, so these runs cannot say which of them did",
                keys=language.listed(numbers["loss_keys"]),
            )
        )
    return language.clauses(clauses)


def _gpus_by_rate(numbers: Numbers, shown: Shown, language: Language) -> str:
    reached = Plural(
        "{run} reached {achieved_flops_per_second} (exact causal FLOPs), which is beyond {n} GeForce RTX "
        "card",
        "{run} reached {achieved_flops_per_second} (exact causal FLOPs), which is beyond {n} GeForce RTX "
        "cards",
        by="excluded_count",
    )
    if numbers["excluded"]:
        reached = Plural(
            "{run} reached {achieved_flops_per_second} (exact causal FLOPs), which is beyond {n} GeForce RTX "
            "card: it "
            "was no {excluded}",
            "{run} reached {achieved_flops_per_second} (exact causal FLOPs), which is beyond {n} GeForce RTX "
            "cards: "
            "it was no {excluded}",
            by="excluded_count",
        )
    sentences = [language.tell(reached, shown, numbers)]
    if numbers["able"]:
        sentences.append(
            language.say(
                "Of the peak of those that could, slowest first: {able}",
                able=shown["able"],
            )
        )
    return language.paragraph(sentences)


COMPOSED: dict[Code, Callable[[Numbers, Shown, Language], str]] = {
    "throughput-fell-rate-rose": _fell_and_rose,
    "throughput-rose-rate-fell": _rose_and_fell,
    "throughput-changed": _changed_speed,
    "same-effective-batch": _same_batch,
    "confounded": _confounded,
    "gpus-by-rate": _gpus_by_rate,
}
"""Whose sentences depend on their numbers."""
