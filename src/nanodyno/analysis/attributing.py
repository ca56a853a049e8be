"""What is asked for unless the user says otherwise: how precise, how long, what counts as nothing."""

import math

from nanodyno.analysis.budget import Budget
from nanodyno.analysis.effects import EffectRules
from nanodyno.analysis.verdict import MARGIN

PRECISION = 0.02
SPEED_BUDGET_SECONDS = 900.0
LOSS_PRECISION = 0.02
"""In nats."""
LOSS_MARGIN = 0.005
"""In nats: what seeds alone move a small model's loss by (0.001 to 0.005)."""
LOSS_BUDGET_SECONDS = 7200.0
LOSS_SEEDS = Budget(looks=(3, 6, 12))


def speed_rules(factors: int, precision: float) -> EffectRules:
    """Of logarithms of rates."""
    return EffectRules(factors, math.log1p(precision), math.log1p(MARGIN))


def loss_rules(factors: int, precision: float) -> EffectRules:
    return EffectRules(factors, precision, LOSS_MARGIN, LOSS_SEEDS, odd=False)
