"""Val loss over seconds of training, as benchmarks/speedrun.py --looks saw it, beside nanoGPT's best recipe.

python benchmarks/speedrun_picture.py OUT.jsonl --out docs/speedrun.svg --names plain=NAME speedrun=NAME
"""

import argparse
import json
import math
from dataclasses import dataclass
from pathlib import Path

from picture import opened

NANOGPT = ((40.9, 4.727), (82.0, 3.960), (123.1, 3.535), (164.2, 3.331), (205.2, 3.217), (246.4, 3.1665))
"""GPT-2 124M by AdamW on the reference corpus and an H200, 65,536 tokens per iteration: seconds, val loss."""
TARGET = 3.1665
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 900, 400, 56, 230, 60, 44
MOST, LEAST = 5.0, 3.0
KINDS = ("first", "second", "third")
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #24292f } .small { font-size: 12px; fill: #57606a }
  .title { font-size: 15px; font-weight: 600 } .frame { fill: none; stroke: #b1b8c0 }
  .grid { stroke: #d8dee4 } .target { stroke: #57606a; stroke-dasharray: 4 3 }
  .rival { stroke: #8c959f; fill: #8c959f } .first { stroke: #1a7f5a; fill: #1a7f5a }
  .second { stroke: #d97706; fill: #d97706 } .third { stroke: #0969da; fill: #0969da }
  polyline { fill: none !important; stroke-width: 2 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .small { fill: #9da7b3 } .frame { stroke: #57606a } .grid { stroke: #30363d }
    .target { stroke: #9da7b3 } .rival { stroke: #768390; fill: #768390 }
    .first { stroke: #3fb68b; fill: #3fb68b } .second { stroke: #f0a04b; fill: #f0a04b }
    .third { stroke: #58a6ff; fill: #58a6ff }
  }
"""

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Curve:
    label: str
    kind: str
    points: Points


def curves_of(files: list[Path], names: dict[str, str]) -> list[Curve]:
    """One for each seed."""
    lines = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    found: list[Curve] = []
    for kind, (label, name) in zip(KINDS, names.items(), strict=False):
        for line in lines:
            if line["name"] == name:
                seen = [(seconds, loss) for _, seconds, loss in line["losses"]]
                found.append(Curve(label, kind, (*seen, (line["train_seconds"], line["val_loss"]))))
    return found


def drawn(curves: list[Curve]) -> str:
    every = [*curves, Curve("nanoGPT", "rival", NANOGPT)]
    end = math.ceil(max(seconds for curve in every for seconds, _ in curve.points) / 50) * 50
    wide, tall = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def across(seconds: float) -> float:
        return LEFT + wide * seconds / end

    def down(loss: float) -> float:
        return TOP + tall * (MOST - min(max(loss, LEAST), MOST)) / (MOST - LEAST)

    def level(kind: str, loss: float) -> str:
        y = f"{down(loss):.1f}"
        return f'<line class="{kind}" x1="{LEFT}" x2="{LEFT + wide}" y1="{y}" y2="{y}"/>'

    title = "Val loss over seconds of training on one H200"
    beneath = f"dashed: {TARGET}, where nanoGPT ended; a line a seed"
    parts = [
        *opened(title, beneath, WIDTH, HEIGHT, STYLE),
        f'<rect class="frame" x="{LEFT}" y="{TOP}" width="{wide}" height="{tall}"/>',
        level("target", TARGET),
    ]
    for tenth in range(round(LEAST * 10), round(MOST * 10) + 1, 5):
        loss = tenth / 10
        parts.append(
            level("grid", loss)
            + f'<text class="small" x="{LEFT - 6}" y="{down(loss) + 4:.1f}" text-anchor="end">'
            f"{loss:.1f}</text>"
        )
    parts += [
        f'<text class="small" x="{across(seconds):.1f}" y="{TOP + tall + 18}" text-anchor="middle">'
        f"{seconds} s</text>"
        for seconds in range(0, end + 1, 50)
    ]
    labelled: set[str] = set()
    for curve in every:
        shown = [(seconds, loss) for seconds, loss in curve.points if loss <= MOST]
        path = " ".join(f"{across(seconds):.1f},{down(loss):.1f}" for seconds, loss in shown)
        parts.append(f'<polyline class="{curve.kind}" points="{path}"/>')
        seconds, loss = curve.points[-1]
        parts.append(
            f'<circle class="{curve.kind}" cx="{across(seconds):.1f}" cy="{down(loss):.1f}" r="3.5"/>'
        )
        if curve.label not in labelled:
            labelled.add(curve.label)
            y = TOP + 14 + 20 * len(labelled)
            parts.append(
                f'<rect class="{curve.kind}" x="{LEFT + wide + 14}" y="{y - 9}" width="12" height="10"/>'
            )
            words = f"{curve.label}: {loss:.3f}, {seconds:.0f} s"
            parts.append(f'<text x="{LEFT + wide + 32}" y="{y}">{words}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--names", nargs="+", required=True, metavar="LABEL=NAME")
    parser.add_argument("--out", type=Path, required=True)
    reported = parser.parse_args()
    names = dict(each.split("=", 1) for each in reported.names)
    reported.out.write_text(drawn(curves_of(reported.files, names)))


if __name__ == "__main__":
    main()
