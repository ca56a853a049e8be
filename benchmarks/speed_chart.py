"""The figures of peer_nanogpt.py as a picture: tokens/s of ours and of nanoGPT, one pair of bars a config.

python benchmarks/speed_chart.py FILE.json [FILE.json ...] --out docs/fast.svg
"""

import argparse
import itertools
import json
from dataclasses import dataclass
from pathlib import Path

WIDTH, LABEL, RIGHT = 860, 190, 150
BAR, GAP, TOP = 16, 22, 54
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #24292f } .small { font-size: 12px; fill: #57606a }
  .title { font-size: 15px; font-weight: 600 } .ours { fill: #1a7f5a } .rival { fill: #b1b8c0 }
  .spread { stroke: #24292f; stroke-width: 1.5 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .small { fill: #9da7b3 } .ours { fill: #3fb68b } .rival { fill: #57606a }
    .spread { stroke: #e6edf3 }
  }
"""


@dataclass(frozen=True)
class Pair:
    label: str
    ours: dict[str, float]
    rival: dict[str, float]
    ratio: dict[str, float]
    settings: str


def pairs(files: list[Path]) -> list[Pair]:
    documents = [json.loads(file.read_text()) for file in files]
    results = [(each, changed(document)) for document in documents for each in document["results"]]
    return [
        Pair(
            f"width {each['width']}, micro-batch {each['micro_batch']}",
            each["ours"]["tokens_per_second"],
            each["nanogpt"]["tokens_per_second"],
            each["ratio"],
            settings,
        )
        for each, settings in sorted(
            results, key=lambda pair: (-pair[0]["width"], pair[0]["micro_batch"], pair[1])
        )
    ]


def changed(document: dict[str, list[str]]) -> str:
    """What of ours was set, from the arguments of that measurement."""
    arguments = document["arguments"]
    if "--set" not in arguments:
        return ""
    after = arguments[arguments.index("--set") + 1 :]
    return " ".join(itertools.takewhile(lambda each: not each.startswith("--"), after))


def drawn(all_pairs: list[Pair], title: str) -> str:
    most = max(max(each.ours["high"], each.rival["mean"]) for each in all_pairs)
    scale = (WIDTH - LABEL - RIGHT) / most
    lines = [f'<text class="title" x="12" y="24">{title}</text>']
    lines.append(
        '<text class="small" x="12" y="42">tokens per second; green ours, grey nanoGPT compiled</text>'
    )
    for number, each in enumerate(all_pairs):
        y = TOP + number * (2 * BAR + GAP)
        lines.append(f'<text x="{LABEL - 10}" y="{y + BAR + 4}" text-anchor="end">{each.label}</text>')
        for row, (kind, rate) in enumerate((("ours", each.ours), ("rival", each.rival))):
            end = LABEL + rate["mean"] * scale
            middle = y + row * BAR + BAR / 2
            lines.append(
                f'<rect class="{kind}" x="{LABEL}" y="{y + row * BAR}" width="{rate["mean"] * scale:.1f}" '
                f'height="{BAR - 1}"/>'
                f'<line class="spread" x1="{LABEL + rate["low"] * scale:.1f}" y1="{middle}" '
                f'x2="{LABEL + rate["high"] * scale:.1f}" y2="{middle}"/>'
                f'<text class="small" x="{max(end, LABEL + rate["high"] * scale) + 6:.1f}" y="{middle + 4}">'
                f"{rate['mean'] / 1e3:,.0f}k{ratio_words(each, kind)}</text>"
            )
    height = TOP + len(all_pairs) * (2 * BAR + GAP)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{title}">\n<style>{STYLE}</style>\n' + "\n".join(lines) + "\n</svg>\n"
    )


def ratio_words(pair: Pair, kind: str) -> str:
    if kind == "rival":
        return ""
    return f"  ({pair.ratio['mean']:.2f}x{', ' if pair.settings else ''}{pair.settings})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--title", default="GPT-2 shapes on one NVIDIA H200, 524,288 tokens per iteration")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.write_text(drawn(pairs(options.files), options.title), encoding="utf-8")


if __name__ == "__main__":
    main()
