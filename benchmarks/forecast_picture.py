"""Curves and what was forecast of them from 30% and 50%, as a picture; priors learned from the other sizes.

python benchmarks/forecast_picture.py DIR --out docs/forecast.svg [--curves NAME ...]
"""

import argparse
from pathlib import Path

import numpy as np

from forecast_curves import Known, load
from forecast_replay import left_out
from nanodyno.analysis.forecast_fit import Prior, predict
from nanodyno.analysis.forecast_law import Array
from picture import opened

SIX = (
    "25M/constant_72000", "100M/cosine_24000", "100M/wsdld_20000_24000", "25M/wsdcon_9", "llmc-adamw-cosine",
    "muon-trapezoid",
)  # fmt: skip
WIDTH, HEIGHT, LEFT, TOP, COLUMNS = 300, 190, 44, 26, 3
SEEN = {0.3: "early", 0.5: "late"}
DRAWN_FROM = 0.15
STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #24292f } .small { font-size: 11px; fill: #57606a }
  .title { font-size: 15px; font-weight: 600 } .true { stroke: #24292f; fill: none; stroke-width: 1.2 }
  .early { fill: #d97706; stroke: #d97706 } .late { fill: #1a7f5a; stroke: #1a7f5a }
  .band { fill-opacity: 0.22; stroke: none } .line { fill: none; stroke-width: 1.4; stroke-dasharray: 4 3 }
  .mark { stroke-width: 1; stroke-dasharray: 2 3; stroke-opacity: 0.7 } .frame { fill: none; stroke: #b1b8c0 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .small { fill: #9da7b3 } .true { stroke: #e6edf3 } .frame { stroke: #57606a }
    .early { fill: #f0a04b; stroke: #f0a04b } .late { fill: #3fb68b; stroke: #3fb68b }
  }
"""


def drawn(curves: list[tuple[Known, Prior]]) -> str:
    rows = -(-len(curves) // COLUMNS)
    width, height = COLUMNS * WIDTH + 20, rows * HEIGHT + 64
    parts = opened(
        "What was forecast from 30% and from 50%, and how it went",
        "loss by iteration; solid: the run; dashed with its 80% band: orange from 30%, green from 50%",
        width,
        height,
        STYLE,
    )
    for number, (known, prior) in enumerate(curves):
        x, y = number % COLUMNS * WIDTH, 52 + number // COLUMNS * HEIGHT
        parts.append(f'<g transform="translate({x},{y})">{"".join(panel(known, prior))}</g>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def panel(known: Known, prior: Prior) -> list[str]:
    kept = known.curve.updates >= DRAWN_FROM * known.last
    updates, losses = known.curve.updates[kept], known.curve.losses[kept]
    low, high = float(losses.min()) - 0.08, float(losses.max())
    inner, tall = WIDTH - LEFT - 12, HEIGHT - TOP - 30

    def place(at: Array, loss: Array) -> list[str]:
        x = LEFT + inner * at / known.last
        y = TOP + tall * (high - np.clip(loss, low, high)) / (high - low)
        return [f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True)]

    parts = [
        f'<rect class="frame" x="{LEFT}" y="{TOP}" width="{inner}" height="{tall}"/>',
        f'<text x="{LEFT}" y="{TOP - 8}">{known.name}</text>',
        f'<text class="small" x="{LEFT - 5}" y="{TOP + 9}" text-anchor="end">{high:.2f}</text>',
        f'<text class="small" x="{LEFT - 5}" y="{TOP + tall}" text-anchor="end">{low:.2f}</text>',
        f'<text class="small" x="{LEFT + inner}" y="{TOP + tall + 14}" text-anchor="end">'
        f"{known.last:,.0f}</text>",
    ]
    for share, kind in SEEN.items():
        at = np.linspace(share, 1, 40) * known.last
        made = predict(known.curve.until(share * known.last), known.schedule, at, prior)
        if made is not None:
            band = [*place(at, made.low), *place(at, made.high)[::-1]]
            parts.append(f'<polygon class="{kind} band" points="{" ".join(band)}"/>')
            parts.append(f'<polyline class="{kind} line" points="{" ".join(place(at, made.median))}"/>')
        mark = LEFT + inner * share
        parts.append(f'<line class="{kind} mark" x1="{mark}" y1="{TOP}" x2="{mark}" y2="{TOP + tall}"/>')
    thinned = slice(None, None, max(1, len(updates) // 150))
    points = " ".join(place(updates[thinned], losses[thinned]))
    return [*parts, f'<polyline class="true" points="{points}"/>']


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--priors", type=Path, help="a folder of priors that were found before")
    parser.add_argument("--curves", nargs="+", default=SIX)
    reported = parser.parse_args()
    curves = load(reported.folder)
    prior_for, named = left_out(curves, kept=reported.priors), {known.name: known for known in curves}
    reported.out.write_text(drawn([(named[name], prior_for(named[name])[0]) for name in reported.curves]))


if __name__ == "__main__":
    main()
