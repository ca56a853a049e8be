"""The arithmetic behind findings and figures, for those who open it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from nanodyno.analysis.account import Account
from nanodyno.costs.flops import NANOGPT_PEAK_FLOPS
from nanodyno.messages import quantities as q
from nanodyno.messages.language import Language
from nanodyno.report.page import Folded, Table


def numbers_table(numbers: Mapping[str, object]) -> Table | None:
    """Under the names that --json has, with all their digits; None where there is nothing behind it."""
    rows = tuple((f"`{name}`", _value(value)) for name, value in numbers.items() if _is_reported(value))
    return Table(("", ""), rows) if rows else None


def _is_reported(value: object) -> bool:
    if isinstance(value, list):
        return any(_is_reported(each) for each in cast(list[object], value))
    return value not in (None, "", (), {})


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1e6 and abs(value) < 1e15 else f"{value:,.6g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_value(each)}" for name, each in cast(Mapping[str, object], value).items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "; ".join(_value(each) for each in cast(Sequence[object], value))
    return str(value)


def derivations(accounts: Sequence[Account], language: Language) -> Folded | None:
    """How rates and shares follow from what was measured; None where nothing is known to derive from."""
    rows = tuple(row for account in accounts for row in _steps(account, language))
    if not rows:
        return None
    heads = tuple(
        language.say(each) for each in ("common.run", "page.derivation.figure", "page.derivation.formula")
    )
    return Folded(language.say("page.derivation.title"), (Table(heads, rows),))


def _steps(account: Account, language: Language) -> Iterator[tuple[str, str, str]]:
    speed, known = account.speed, account.reference
    seconds, tokens, rate = speed.iteration_seconds, speed.tokens_per_iter, speed.tokens_per_second
    if seconds is None or tokens is None or rate is None:
        return
    per_second = q.rate(rate.value, language)
    took = language.number(seconds.value, ",.4g")
    yield (
        account.name,
        language.say("common.tokens-per-second"),
        f"{language.number(tokens)} / {took} s = {per_second}",
    )
    work, shape, achieved = known.flops_per_token, account.shape, speed.achieved_flops_per_second
    if work is None or shape is None or achieved is None:
        return
    mega = language.number(work / 1e6, ",.1f")
    yield (
        account.name,
        language.say("page.derivation.work-per-token"),
        language.say_plural(
            "page.derivation.work-per-token-formula",
            shape.n_layer,
            width=str(shape.n_embd),
            context=str(shape.block_size),
            work=mega,
        ),
    )
    reached = q.flop_rate(achieved.value, language)
    yield account.name, language.say("common.work-rate-exact"), f"{per_second} x {mega} MFLOP = {reached}"
    if speed.mfu is not None and known.peak_flops_per_second is not None:
        share = q.percent(speed.mfu.value, language)
        peak = q.flop_rate(known.peak_flops_per_second, language)
        yield account.name, language.say("common.share-of-peak"), f"{reached} / {peak} = {share}"
    theirs, mfu = known.nanogpt_flops_per_token, speed.nanogpt_mfu
    if theirs is not None and mfu is not None:
        whole = f"{per_second} x {language.number(theirs / 1e6, ',.1f')} MFLOP"
        peak = q.flop_rate(NANOGPT_PEAK_FLOPS, language)
        yield (
            account.name,
            language.say("common.nanogpt-mfu"),
            f"{whole} / {peak} = {q.percent(mfu.value, language)}",
        )
