"""The README's picture of the demo, out of what a terminal of 100 columns showed.

In tmux: `nanodyno demo`, then `tmux capture-pane -epS -500 | python benchmarks/demo_picture.py demo.svg`.
What is left out is three dots: the evaluations, the text it writes and the tables, which the page has.
"""

import io
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

SHOWN = (
    (r"nanodyno demo$", r"First: which"),
    (r" +micro-batch +switches", r"chosen:"),
    (r"eval at 0: val loss 5\.54", r"eval at 50:"),
    (r"eval at 200: val loss", r"^ +25 +iterations"),
    (r"demo-wide-1 trains", r"scatter"),
    (r"All of the comparison", r"report:"),
)
"""From a line that holds the first to the one that holds the second."""


def main() -> None:
    lines = [Text.from_ansi(line) for line in sys.stdin.read().splitlines()]
    plain = [line.plain.rstrip() for line in lines]
    console = Console(record=True, width=100, file=io.StringIO())
    at = 0
    for first, last in SHOWN:
        console.print("..." if at else "", style="dim", end="\n" if at else "", highlight=False)
        start = next(n for n in range(at, len(plain)) if re.search(first, plain[n]))
        at = next(n for n in range(start, len(plain)) if re.search(last, plain[n])) + 1
        for line in lines[start:at]:
            console.print(line)
    picture = console.export_svg(title="nanodyno demo", theme=MONOKAI)
    # The reader's own letters: rich would load some from a network.
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.S)
    picture = picture.replace("Fira Code, monospace", "DejaVu Sans Mono, Menlo, Consolas, monospace")
    Path(sys.argv[1]).write_text(re.sub(r"[ \t]+$", "", picture, flags=re.M))


if __name__ == "__main__":
    main()
