"""Accounts of runs for tests: the two of the case, as far as its owner told them, and one of ours."""

from typing import Any

from nanodyno.analysis.account import Account, AccountEval, AccountStep
from nanodyno.config import ModelShape

SHAPE = ModelShape(
    n_layer=12,
    n_head=12,
    n_embd=768,
    block_size=1024,
    vocab_size=50304,
    bias=False,
    dropout=0.0,
    gelu="exact",
)
SETTINGS: dict[str, Any] = {
    "n_layer": 12,
    "n_head": 12,
    "n_embd": 768,
    "block_size": 1024,
    "batch_size": 8,
    "gradient_accumulation_steps": 64,
    "learning_rate": 6e-4,
    "dtype": "bfloat16",
    "compile": True,
    "dataset": "edu",
}


def steps(
    seconds: float, mfu: float | None = None, first: int = 790, count: int = 20
) -> tuple[AccountStep, ...]:
    """Iterations that scatter by a thousandth."""
    return tuple(
        AccountStep(first + number, 6.0, seconds * (1 + 0.001 * (0, 1, 0, -1)[number % 4]), printed_mfu=mfu)
        for number in range(count)
    )


def curve(
    start: float, noise: float = 0.0, iterations: int = 1000, every: int = 100
) -> tuple[AccountEval, ...]:
    """Falls with the logarithm; every second evaluation lies `noise` above, every other below."""
    places = range(every, iterations + 1, every)
    return tuple(
        AccountEval(at, start - 0.5 * (at / every) ** 0.5 + noise * (1 if number % 2 else -1))
        for number, at in enumerate(places)
    )


def account(name: str = "run", seconds: float = 1.0, **changes: Any) -> Account:
    """One that tells everything; settings=... replaces some of them."""
    settings = SETTINGS | changes.pop("settings", {})
    shape = SHAPE.replaced(
        n_layer=settings["n_layer"], n_embd=settings["n_embd"], block_size=settings["block_size"]
    )
    values: dict[str, Any] = {
        "name": name,
        "settings": settings,
        "steps": steps(seconds),
        "evals": curve(6.0, 0.01),
        "shape": shape,
        "data_vocab_size": 50257,
    }
    return Account(**(values | changes))


def reported(
    name: str, settings: dict[str, Any], seconds: float, mfu: float, losses: dict[int, float]
) -> Account:
    """One of the case's two: neither layers nor heads, nor the card's name."""
    return Account(
        name=name,
        settings={"block_size": 1024, "compile": True, **settings},
        steps=steps(seconds, mfu),
        evals=tuple(AccountEval(iteration, loss) for iteration, loss in losses.items()),
        data_vocab_size=50257,
        foreign=True,
    )


SMALL = {"batch_size": 16, "gradient_accumulation_steps": 32, "n_embd": 384, "learning_rate": 1e-3}
LARGE = {"batch_size": 8, "gradient_accumulation_steps": 64, "n_embd": 768, "learning_rate": 3e-4}
BEFORE = reported("train2", SMALL, 3.91, 0.129, {500: 5.5328, 1000: 4.4593})
AFTER = reported("train1", LARGE, 9.34, 0.154, {500: 5.5194})
