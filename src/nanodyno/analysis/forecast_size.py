"""What a model's size, data and tokens alone say about its loss: for runs that have shown too little.

The shape is Chinchilla's, L = E + A / N^a + B / D^b, with Besiroglu et al.'s numbers; the level is set by one
public run (llm.c's GPT-2 124M on FineWeb, 3.2722 after 10.26B tokens). So it is rough, and says so by width.
"""

import math
from dataclasses import dataclass, replace

from nanodyno.analysis.account import GPT2_VOCABULARY, Account
from nanodyno.analysis.imported import known_shape
from nanodyno.config import ModelShape
from nanodyno.costs.parameters import parameters

LAW_E, LAW_A, LAW_ALPHA, LAW_B, LAW_BETA = 1.8172, 482.01, 0.3478, 2085.43, 0.3658
"""Loss by parameters and tokens: Besiroglu et al. 2024 on the runs of Hoffmann et al., of other data."""
ANCHOR_PARAMETERS, ANCHOR_TOKENS, ANCHOR_LOSS = 124_475_904, 19_560 * 524_288, 3.2722
EDU = -0.155
"""FineWeb-Edu against FineWeb: OpenAI's GPT-2 124M scores 0.133 less on it, and third-party runs of 20B and
30B tokens (2.998, 2.967) end 0.176 and 0.158 below this law."""
SPREAD = 0.08
"""Of runs on known data: learning rate, optimiser, batch."""
EDU_SPREAD = 0.03
OTHER_DATA_SPREAD = 0.3
SIZE_SPREAD, TOKENS_SPREAD = 0.05, 0.03
"""For each e-fold away from the anchor."""


@dataclass(frozen=True)
class SizeLaw:
    median: float
    spread: float
    data: str
    """fineweb, fineweb-edu or other."""

    def beside(self, now: "SizeLaw", loss: float, times: float) -> "SizeLaw":
        """Return the law after so many times the tokens, for a run whose loss is below the law of now.

        A better recipe is as if each token taught more, so that what it is ahead shrinks as the term of the
        tokens does. A loss above the law is no sign of the end: a run is slow until its rate has risen.
        """
        ahead = min(loss - now.median, 0.0)
        return replace(self, median=self.median + ahead * times**-LAW_BETA)


def law_loss(size: float, tokens: float) -> float:
    """On FineWeb, with GPT-2's tokenizer and a rate that ends low."""
    level = ANCHOR_LOSS - _law(ANCHOR_PARAMETERS, ANCHOR_TOKENS)
    return level + _law(size, tokens)


def without_biases(account: Account) -> ModelShape | None:
    """The model of a run that tells all of its size but `bias`, by nanoGPT's default; None for others.

    Biases are about a thousandth of GPT-2's parameters, so that the size is as good as known.
    """
    if account.parameters or account.reported_parameters or "bias" in account.settings:
        return None
    return known_shape({**account.settings, "bias": False})


def parameters_of(account: Account) -> float | None:
    """As nanoGPT counts them: by the settings, as told, or but for biases."""
    known = account.parameters or account.reported_parameters
    shape = without_biases(account)
    return known if shape is None else parameters(shape).nanogpt


def size_law(account: Account, tokens: float) -> SizeLaw | None:
    """None where the size is not known, or the tokenizer is not GPT-2's: its losses lie on another level."""
    size = parameters_of(account)
    if size is None or tokens <= 0 or account.vocabulary not in (None, GPT2_VOCABULARY):
        return None
    return law_for(size, tokens, str(account.settings.get("dataset", "")))


def law_for(size: float, tokens: float, dataset: str) -> SizeLaw:
    """Of so many parameters, in GPT-2's tokens."""
    data = _data(dataset)
    spreads = [
        SPREAD,
        SIZE_SPREAD * math.log(size / ANCHOR_PARAMETERS),
        TOKENS_SPREAD * math.log(tokens / ANCHOR_TOKENS),
        {"fineweb": 0.0, "fineweb-edu": EDU_SPREAD}.get(data, OTHER_DATA_SPREAD),
    ]
    level = EDU if data == "fineweb-edu" else 0.0
    return SizeLaw(law_loss(size, tokens) + level, math.hypot(*spreads), data)


def _law(size: float, tokens: float) -> float:
    return LAW_E + LAW_A / size**LAW_ALPHA + LAW_B / tokens**LAW_BETA


def _data(dataset: str) -> str:
    """By its name, which is all there is."""
    name = dataset.lower().rsplit("/", maxsplit=1)[-1]
    if "edu" in name:
        return "fineweb-edu"
    return "fineweb" if "fineweb" in name or name.startswith("fw") else "other"
