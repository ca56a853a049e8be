"""Size of reports, and how long Chromium takes to open them.

python benchmarks/report_load.py FILE.html [FILE.html ...] [--runs 10]

And pictures of one: python benchmarks/report_load.py FILE.html --screenshots FOLDER
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.chromium import Browser, chromium

PHONE, DESK = 360, 1280
LOADED = "performance.getEntriesByType('navigation')[0].loadEventEnd"
PAINTED = (
    "new Promise((done) => new PerformanceObserver((list) => done(list.getEntries().at(-1).startTime))"
    ".observe({ type: 'paint', buffered: true }))"
)


def measured(browser: Browser, path: Path, runs: int) -> str:
    loaded, painted = [], []
    for _ in range(runs):
        browser.open(path)
        loaded.append(browser.evaluate(LOADED))
        painted.append(browser.evaluate(PAINTED))
    nodes = browser.evaluate("document.querySelectorAll('*').length")
    return (
        f"{path.name}: {path.stat().st_size / 1000:.0f} kB, {nodes} elements, loaded after "
        f"{statistics.median(loaded):.0f} ms (longest {max(loaded):.0f}), painted after "
        f"{statistics.median(painted):.0f} ms (longest {max(painted):.0f}); {runs} times"
    )


def shoot(browser: Browser, path: Path, folder: Path) -> None:
    for name, width, dark in (("desktop", DESK, False), ("dark", DESK, True), ("phone", PHONE, False)):
        browser.open(path, width, 1000, dark)
        browser.screenshot(folder / f"{path.stem}-{name}.png", whole=False)
    browser.pdf(folder / f"{path.stem}.pdf")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--screenshots", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as profile, chromium(Path(profile)) as browser:
        for path in asked.files:
            print(measured(browser, path, asked.runs))
            if asked.screenshots is not None:
                shoot(browser, path, asked.screenshots)


if __name__ == "__main__":
    main()
