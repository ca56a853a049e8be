"""Grids and tune's winners as a picture: the speed of every point by its micro-batch, as a share of the best.

python benchmarks/tune_picture.py "TITLE=GRID.jsonl,TUNED.json" [...] --out docs/tune.svg
"""

import argparse
import json
import math
import statistics
from dataclasses import dataclass
from pathlib import Path

from picture import opened
from tune_grid import read, relative_times

WIDTH, HEIGHT, LEFT, TOP, COLUMNS = 430, 210, 52, 30, 2
LOWEST = 0.7
"""Of the best's speed; what is slower lies on the lower edge."""
STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #24292f } .small { font-size: 11px; fill: #57606a }
  .title { font-size: 15px; font-weight: 600 } .frame { fill: none; stroke: #b1b8c0 }
  .grid { stroke: #d8dee4 } .point { fill: #8c959f } .asked { fill: #d97706 } .winner { fill: #1a7f5a }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .small { fill: #9da7b3 } .frame { stroke: #57606a } .grid { stroke: #30363d }
    .point { fill: #768390 } .asked { fill: #f0a04b } .winner { fill: #3fb68b }
  }
"""


@dataclass(frozen=True)
class Grid:
    title: str
    speeds: dict[str, float]
    """By point, over the fastest."""
    asked: str
    winner: str


def grid_of(reported: str) -> Grid:
    title, _, files = reported.partition("=")
    grid, tuned = files.split(",")
    lines = read(Path(grid))
    times = {name: statistics.geometric_mean(each) for name, each in relative_times(lines).items()}
    best = min(times.values())
    asked = next(line.name for line in lines if line.is_anchor)
    winner = json.loads(Path(tuned).read_text(encoding="utf-8"))["chosen"]
    return Grid(title, {name: best / each for name, each in times.items()}, asked, winner)


def size_of(name: str) -> int:
    return int(name.split(" ")[0])


def panel(grid: Grid) -> list[str]:
    inner, tall = WIDTH - LEFT - 16, HEIGHT - TOP - 44
    sizes = sorted({size_of(name) for name in grid.speeds})
    first, last = math.log2(sizes[0]), math.log2(sizes[-1])

    def across(size: int) -> float:
        return LEFT + 14 + (inner - 28) * (math.log2(size) - first) / (last - first)

    def down(speed: float) -> float:
        return TOP + 8 + (tall - 16) * (1 - max(speed, LOWEST)) / (1 - LOWEST)

    parts = [
        f'<rect class="frame" x="{LEFT}" y="{TOP}" width="{inner}" height="{tall}"/>',
        f'<text x="{LEFT}" y="{TOP - 9}">{grid.title}</text>',
    ]
    for share in (1.0, 0.9, 0.8, LOWEST):
        words = f"{share:.0%}" if share > LOWEST else f"≤ {share:.0%}"
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{LEFT + inner}" y1="{down(share)}" y2="{down(share)}"/>'
            f'<text class="small" x="{LEFT - 5}" y="{down(share) + 4}" text-anchor="end">{words}</text>'
        )
    parts += [
        f'<text class="small" x="{across(size):.1f}" y="{TOP + tall + 16}" text-anchor="middle">{size}</text>'
        for size in sizes
    ]
    for name, speed in sorted(grid.speeds.items(), key=lambda pair: pair[0] in (grid.asked, grid.winner)):
        kind = "winner" if name == grid.winner else "asked" if name == grid.asked else "point"
        radius = 6 if kind == "winner" else 4
        parts.append(
            f'<circle class="{kind}" cx="{across(size_of(name)):.1f}" cy="{down(speed):.1f}" r="{radius}">'
            f"<title>{name}: {speed:.1%}</title></circle>"
        )
    return parts


def drawn(grids: list[Grid]) -> str:
    rows = -(-len(grids) // COLUMNS)
    width, height = COLUMNS * WIDTH + 8, rows * HEIGHT + 60
    parts = opened(
        "What tune chose, and every point of a grid",
        "tokens per second by micro-batch, as a share of the fastest; large and green: tune's winner; "
        "orange: as it was asked for; several at one micro-batch differ in switches",
        width,
        height,
        STYLE,
    )
    for number, grid in enumerate(grids):
        x, y = number % COLUMNS * WIDTH, 52 + number // COLUMNS * HEIGHT
        parts.append(f'<g transform="translate({x},{y})">{"".join(panel(grid))}</g>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("grids", nargs="+", type=grid_of, metavar="TITLE=GRID,TUNED")
    parser.add_argument("--out", type=Path, required=True)
    reported = parser.parse_args()
    reported.out.write_text(drawn(reported.grids))


if __name__ == "__main__":
    main()
