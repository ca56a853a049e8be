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
        "which fits {fits} (with nanoGPT's vocabulary of 50,304 and no biases, unless reported otherwise)"
    ),
    "model-from-count": message(
        "{run}: its number of parameters fits {fits} (without biases, unless reported otherwise)"
    ),
    "tokens-contradict": message(
        "{run}: the log reports {reported_tokens} tokens per iteration, and its settings make "
        "{computed_tokens}"
    ),
    "mfu-above-one": message(
        "{run}: an MFU of {mfu} is more than a GPU can do. Its peak is another GPU's, or its times or FLOPs "
        "are not right"
    ),
    "rate-impossible": message(
        "{run} would have reached {achieved_flops_per_second}, {share} of the {peak} of the {gpu}. Large "
        "matmuls alone were measured at no more than {most} of such a peak. It was another GPU, or the model "
        "or the times are not as reported"
    ),
    "more-than-one-gpu": message(
        "{run} reached {achieved_flops_per_second}, {share} of the peak of one {gpu}. Large matmuls alone "
        "were measured at no more than {most} of such a peak. It ran on {gpus} GPUs or more, and its log "
        "does not report how many; or the model or the times are not as reported"
    ),
    "mfu-against-a100": message(
        "{run}: the printed MFU of {mfu} is against an A100's 312 TFLOP/s, as nanoGPT's always is. Of any "
        "other device it is no share of the peak"
    ),
    "mfus-against-a100": message(
        "{runs}: the printed MFUs of {mfus} are against an A100's 312 TFLOP/s, as nanoGPT's always are. Of "
        "any other device they are no shares of the peak"
    ),
    "mfu-poisoned": Plural(
        "{run}: the time of {n} logged iteration includes an evaluation (up to {longest_seconds} against "
        "{seconds}). nanoGPT averages it in, which lowers its MFU by up to {lowered_by} of itself",
        "{run}: the times of {n} logged iterations include an evaluation (up to {longest_seconds} against "
        "{seconds}). nanoGPT averages them in, and each lowers its MFU by up to {lowered_by} of itself",
        by="iterations",
    ),
    "perplexity-as-loss": message(
        "{run}: a val loss of {reported_loss} would be worse than guessing among {vocabulary} tokens "
        "({guessing}). It is a perplexity, of a loss of ln {reported_loss} = {loss}"
    ),
    "worse-than-guessing": message(
        "{run}: its val loss of {loss} at iteration {iteration} is worse than guessing among {vocabulary} "
        "tokens ({guessing}). The model is hardly trained, diverged or overfitted"
    ),
    "not-a-number": Plural(
        "{run}: {n} of its losses is NaN or infinite, at iteration {iteration}",
        "{run}: {n} of its losses are NaN or infinite, the first at iteration {iteration}",
        by="count",
    ),
    "speed-without-disturbances": Plural(
        "{run}: its speed is uncertain. {n} slow iteration was left out as a disturbance. With it an "
        "iteration takes {elapsed_iteration_seconds}, without it {iteration_seconds} ({excess})",
        "{run}: its speed is uncertain. {n} slow iterations were left out as disturbances. With them an "
        "iteration takes {elapsed_iteration_seconds}, without them {iteration_seconds} ({excess})",
        by="count",
    ),
    "speed-not-elapsed": message(
        "{run}: its speed is uncertain. By the log's elapsed time an iteration takes "
        "{elapsed_iteration_seconds}, by the logged iterations {iteration_seconds} ({excess})"
    ),
    "another-schedule": message(
        "{run}: where it was resumed, at iteration {iteration}, its learning rate went from {before} to "
        "{after}. It has another schedule from there on"
    ),
    "hours-to-tokens": Plural(
        "At the speed of {run}, {tokens} tokens take {hours} hours of training ({n} iteration), without "
        "evaluations",
        "At the speed of {run}, {tokens} tokens take {hours} hours of training ({n} iterations), without "
        "evaluations",
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
    "gpu-shared": Plural(
        "{run}: the GPU was shared ({n} other process, memory {other_gpu_bytes}, share of the "
        "multiprocessors {other_gpu_share}), so its speed may be too low",
        "{run}: the GPU was shared ({n} other processes, memory {other_gpu_bytes}, share of the "
        "multiprocessors {other_gpu_share}), so its speed may be too low",
        by="other_gpu_processes",
    ),
    "steps-unchanged": message(
        "a billion tokens are {steps_per_billion} optimiser steps in both: none was halved or doubled"
    ),
    "effective-batch-changed": message(
        "the tokens of an iteration went from {tokens_before} to {tokens_after}: equal iterations are not "
        "equal training, and losses compare at equal tokens"
    ),
    "speed-within-noise": message(
        "no significant difference in speed: {tokens_per_second_1} tokens per second for {other}, "
        "{tokens_per_second_0} for {run} (ratio {throughput_times}, {level} CI {ratio_low} to {ratio_high}; "
        "noise between runs {run_noise}, {noise_source})"
    ),
    "speed-of-few-iterations": message(
        "the speeds of {run} and {other} do not compare: one of them rests on too few undisturbed iterations"
    ),
    "speed-uncertain": message(
        "the speeds of {run} and {other} do not compare: one of them does not fit the time that the run took"
    ),
    "speed-of-contradicting-tokens": message(
        "the speeds of {run} and {other} do not compare: the tokens per iteration of one contradict its "
        "settings"
    ),
    "speed-impossible": message(
        "the speeds of {run} and {other} do not compare: one of them is more than its GPU can do"
    ),
    "speed-unrecorded-difference": message(
        "{other} ran at {throughput_times} times the speed of {run} ({tokens_per_second_1} against "
        "{tokens_per_second_0} tokens per second), though no recorded setting that moves the speed differs: "
        "something that is not recorded does, such as the load or the clocks of the machine"
    ),
    "nothing-in-common": message("nothing that both {run} and {other} tell can be compared"),
    "no-change": message("no setting that both report differs in what it does"),
    "one-known-change": message(
        "of what both tell only {changed} differs, and {count} settings that matter are not told by both: no "
        "difference between the runs is known to be its"
    ),
    "settings-unknown": message("not told by both, so they may have changed as well: {keys}"),
    "no-common-loss": message("the two have no val losses that belong to the same amount of training"),
    "losses-on-other-data": message("the val losses, {losses} at {at}, are of different text: no comparison"),
    "losses-of-different-models": message(
        "the val losses, {losses} at {at}, belong to different models, and other settings that move the loss "
        "changed as well: their difference of {difference} is no one setting's"
    ),
    "no-evidence-for-learning-rate": message(
        "that the learning rate went from {before} to {after} is not shown to have helped or hurt: the "
        "val losses, {losses} at {at}, belong to different models"
    ),
    "losses-at-other-stages": message(
        "the val losses, {losses} at {at}, do not compare: there the learning rates are at different stages "
        "of their schedules"
    ),
    "losses-of-contradicting-tokens": message(
        "the val losses, {losses} at {at}, do not compare: the tokens per iteration of one contradict its "
        "settings"
    ),
    "losses-unrecorded-difference": message(
        "the val losses, {losses} at {at}, differ by {difference}, though no recorded setting but the seed "
        "could move them: that is more than seeds do ({seed_noise}, {noise_source}), so something that is "
        "not recorded differs"
    ),
    "losses-within-noise": message(
        "no significant difference in val loss: {losses} at {at} (difference {difference}, {level} CI "
        "{difference_low} to {difference_high}; seed noise {seed_noise}, {noise_source})"
    ),
    "losses-apart": message(
        "the val losses, {losses} at {at}, differ by {difference} ({level} CI {difference_low} to "
        "{difference_high}; seed noise {seed_noise}, {noise_source})"
    ),
    "next-measure-apart": message(
        "to learn which change did what, measure every combination on your card: nanodyno attribute {run} "
        "{other}"
    ),
    "next-name-the-gpu": message("name the GPU to see the share of its peak: nanodyno import ... --gpu NAME"),
    "next-evaluate-more": message(
        "evaluate more often (eval_interval), so that losses meet at equal tokens and their noise can be "
        "judged"
    ),
    "next-compare-alone": message(
        "not all of these runs were evaluated at equal tokens; these two were: nanodyno compare {run} {other}"
    ),
}
"""Those that are one sentence whatever their numbers; the others are below."""


def words(finding: Finding, language: Language = ENGLISH) -> str:
    counts = finding.numbers.get("counts")
    sizes = [each for each in counts if isinstance(each, int)] if isinstance(counts, list) else [1, 1]
    shown = {
        "run": repeated(finding.runs[0], sizes[0], language),
        "other": repeated(finding.runs[-1], sizes[-1], language),
        "runs": language.listed(finding.runs),
        **shown_numbers(finding.numbers, language),
    }
    reported = COMPOSED.get(finding.code)
    if reported is not None:
        return reported(finding.numbers, shown, language)
    return language.tell(WORDS[finding.code], shown, finding.numbers)


def repeated(name: str, count: int, language: Language) -> str:
    """The first of several runs of one config, and how many there are: train1 \u00d73."""
    return name if count == 1 else f"{name} \u00d7{language.number(count, 'd')}"


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
                "{keys} can each move the speed, so these runs cannot say what each of them did",
                keys=language.listed(numbers["speed"]),
            )
        )
    if len(numbers["loss_keys"]) > 1:
        clauses.append(
            language.say(
                "{keys} can each move the loss, so these runs cannot say what each of them did",
                keys=language.listed(numbers["loss_keys"]),
            )
        )
    return language.clauses(clauses)


def _one_change(numbers: Numbers, shown: Shown, language: Language) -> str:
    """What a difference comes from, as far as the runs compare."""
    moving = list(dict.fromkeys([*numbers["speed"], *numbers["loss_keys"]]))
    if not numbers["others"]:
        lead = message("one thing changed ({changed})")
    elif not moving:
        lead = message("what changed ({changed}) can move neither the speed nor the loss per token")
    elif len(moving) == 1:
        lead = message("of what changed ({changed}), only {moving} can move the speed or the loss per token")
    else:
        lead = message(
            "of what changed, only {speed} can move the speed and only {loss_keys} the loss per token"
        )
    explained = [what for what in ("speed", "loss") if numbers[f"explains_{what}"]]
    clauses = [lead]
    if len(explained) == 2 and len(moving) == 1:
        clauses.append(
            message(
                "a difference between the runs is from {moving}, or chance: two runs of the same settings "
                "differ too"
            )
        )
    elif len(explained) == 2:
        clauses.append(message("a difference in either is from that setting, or chance"))
    elif explained == ["speed"]:
        clauses.append(
            message(
                "a difference in speed is from {speed}, or chance: two runs of the same settings differ too"
            )
        )
    elif explained == ["loss"]:
        clauses.append(
            message(
                "a difference in loss is from {loss_keys}, or chance: two runs of the same settings differ "
                "too"
            )
        )
    places = {**shown, "moving": language.joined(moving)}
    return language.clauses([language.say(each, **places) for each in clauses])


def _speed_on_busy_machine(numbers: Numbers, shown: Shown, language: Language) -> str:
    if numbers["on_cpu"]:
        return language.say("the speeds of {run} and {other} do not compare: the machine was busy", **shown)
    return language.say(
        "the speeds of {run} and {other} do not compare: the machine was busy, or its GPU was throttled",
        **shown,
    )


def _machine_busy(numbers: Numbers, shown: Shown, language: Language) -> str:
    """By whoever took more of the CPU."""
    if (numbers["stolen_cpu_share"] or 0.0) > (numbers["others_cpu_share"] or 0.0):
        return language.say(
            "{run}: the machine was busy (the host of this virtual machine took {stolen_cpu_share} of the "
            "CPU), so its speed may be too low",
            **shown,
        )
    return language.say(
        "{run}: the machine was busy (other programs used {others_cpu_share} of the CPU), so its speed may "
        "be too low",
        **shown,
    )


def _gpu_throttled(numbers: Numbers, shown: Shown, language: Language) -> str:
    """By what lowered the clocks for longer."""
    if (numbers["power_brake_share"] or 0.0) > (numbers["thermal_share"] or 0.0):
        return language.say(
            "{run}: the GPU was throttled by its power supply for {power_brake_share} of the time (median "
            "clock {sm_mhz}, highest {highest_sm_mhz}), so its speed may be too low",
            **shown,
        )
    return language.say(
        "{run}: the GPU was throttled by heat for {thermal_share} of the time (up to {highest_celsius}, "
        "median clock {sm_mhz}, highest {highest_sm_mhz}), so its speed may be too low",
        **shown,
    )


def _gpus_by_rate(numbers: Numbers, shown: Shown, language: Language) -> str:
    sentences = [language.say("{run} reached {achieved_flops_per_second} (exact causal FLOPs).", **shown)]
    if numbers["excluded"]:
        excluded = Plural(
            "If that was one GPU, it was not the {excluded}: large matmuls reach at most {most} of its peak.",
            "If that was one GPU, it was none of {n} GeForce RTX GPUs ({excluded}): large matmuls reach at "
            "most {most} of their peak.",
            by="excluded_count",
        )
        sentences.append(language.tell(excluded, shown, numbers))
    if numbers["able"]:
        sentences.append(
            language.say(
                "Of the peak of those that could have, slowest first: {able}. Training was measured at up to "
                "{trained} of it.",
                **shown,
            )
        )
    return language.together(sentences)


def _share_of_gpu(numbers: Numbers, shown: Shown, language: Language) -> str:
    if numbers["taken_as_one"]:
        return language.say(
            "{run} reached {share} of the {gpu}'s peak ({achieved_flops_per_second} of {peak}, exact causal "
            "FLOPs), if it ran on one: its log does not report how many",
            **shown,
        )
    return language.say(
        "{run} reached {share} of the {gpu}'s peak ({achieved_flops_per_second} of {peak}, exact causal "
        "FLOPs)",
        **shown,
    )


def _another_peak(numbers: Numbers, shown: Shown, language: Language) -> str:
    if numbers["processes"]:
        return language.say(
            "{run}: its printed MFU stands for {flops_per_token} per token against an A100, where the model "
            "has {expected}. It is that of one of {processes} processes, or against a peak of {peak}, or by "
            "another formula",
            **shown,
        )
    return language.say(
        "{run}: its printed MFU stands for {flops_per_token} per token against an A100, where the model "
        "has {expected}. It is against a peak of {peak}, or by another formula",
        **shown,
    )


COMPOSED: dict[Code, Callable[[Numbers, Shown, Language], str]] = {
    "throughput-fell-rate-rose": _fell_and_rose,
    "throughput-rose-rate-fell": _rose_and_fell,
    "throughput-changed": _changed_speed,
    "same-effective-batch": _same_batch,
    "confounded": _confounded,
    "one-change": _one_change,
    "one-change-each": _one_change,
    "gpus-by-rate": _gpus_by_rate,
    "machine-busy": _machine_busy,
    "speed-on-busy-machine": _speed_on_busy_machine,
    "gpu-throttled": _gpu_throttled,
    "share-of-gpu": _share_of_gpu,
    "mfu-of-another-peak": _another_peak,
}
"""Whose sentences depend on their numbers."""
