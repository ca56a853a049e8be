"""What a run's losses show coming, and what is none of it."""

from dataclasses import replace

import numpy as np
import pytest
from tests.analysis.losses import cosine, true_loss, with_losses

from nanodyno.analysis.account import Account, AccountEval, AccountStep
from nanodyno.analysis.forecast_plan import curve_of, plan_of
from nanodyno.analysis.forecast_warnings import Sign, warned
from nanodyno.records.types import DataRecord

SOUND = with_losses(5000)


def batches(leaps: int) -> tuple[AccountStep, ...]:
    rng = np.random.default_rng(4)
    losses = 3.5 + 0.02 * rng.normal(size=400)
    losses[50 : 50 + 7 * leaps : 7] += 1.0
    return tuple(AccountStep(at, float(loss)) for at, loss in enumerate(losses))


def parted(by: float) -> Account:
    evals = tuple(
        replace(each, train_loss=each.val_loss - 0.02 - by * number / len(SOUND.evals))
        for number, each in enumerate(SOUND.evals)
    )
    return replace(SOUND, evals=evals)


def flat(at: np.ndarray) -> np.ndarray:
    return np.where(at < 2000, true_loss(cosine(10_000), at), 3.6)


def data(train_tokens: int) -> DataRecord:
    return DataRecord(
        dataset="fineweb", tokenizer=None, vocab_size=50_257, train_tokens=train_tokens, val_tokens=1,
        fingerprint="1",
    )  # fmt: skip


def test_the_losses_of_batches_are_not_called_val_losses_that_scatter() -> None:
    run = replace(CASES["uneven-evaluations"], evals=(), steps=tuple(
        AccountStep(each.iteration, each.val_loss) for each in CASES["uneven-evaluations"].evals
    ))  # fmt: skip
    assert warned(run, curve_of(run), plan_of(run)) == ()


CASES: dict[Sign, Account] = {
    "diverging": replace(
        SOUND, evals=(*SOUND.evals, AccountEval(5200, 4.2), AccountEval(5400, 4.4), AccountEval(5600, 4.6))
    ),
    "plateau": with_losses(4800, loss=flat),
    "spikes": replace(SOUND, steps=batches(10)),
    "parting": parted(0.3),
    "repeating": replace(SOUND, data=data(1_000_000_000)),
    "not-finite": replace(SOUND, evals=(*SOUND.evals, AccountEval(5200, float("nan")))),
    "uneven-evaluations": replace(
        SOUND,
        foreign=True,
        evals=tuple(
            replace(each, val_loss=each.val_loss + 0.3 * np.sin(number**2))
            for number, each in enumerate(SOUND.evals)
        ),
    ),
}


def signs(account: Account) -> set[str]:
    return {each.sign for each in warned(account, curve_of(account), plan_of(account))}


@pytest.mark.parametrize("sign", CASES)
def test_each_sign_is_seen_where_it_is(sign: Sign) -> None:
    assert sign in signs(CASES[sign])


def test_a_sound_run_is_warned_of_nothing() -> None:
    assert signs(replace(CASES["uneven-evaluations"], foreign=False)) == set(), "we evaluate on fixed batches"
    assert signs(SOUND) == set()
    assert signs(replace(SOUND, steps=batches(1), data=data(10_000_000_000))) == set()
    assert signs(parted(0.05)) == set()


def test_the_end_of_a_decay_is_flat_by_intention() -> None:
    assert "plateau" not in signs(with_losses(9800, loss=flat))


def test_epochs_are_those_of_the_whole_run() -> None:
    """10,000 iterations of 524,288 tokens over a billion: 5.24 times."""
    (repeating,) = warned(CASES["repeating"], curve_of(SOUND), plan_of(SOUND))
    assert repeating.numbers["epochs"] == pytest.approx(5.24288)
