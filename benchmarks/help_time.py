"""Wall time of `nanodyno --help`, whose limit is 0.3 s, and which imports it goes to.

python benchmarks/help_time.py [--runs 20]
"""

import argparse
import statistics
import subprocess
import sys
import time
from collections import Counter

LIMIT_SECONDS = 0.3
HELP = ("-m", "nanodyno", "--help")
SHOWN = 8


def seconds_of_one_run() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, *HELP], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def import_microseconds() -> Counter[str]:
    """Microseconds of each top-level package's own modules, as the interpreter counts them."""
    command = [sys.executable, "-X", "importtime", *HELP]
    reported = subprocess.run(
        command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    spent: Counter[str] = Counter()
    for line in reported.stderr.splitlines():
        own, _, rest = line.removeprefix("import time:").partition("|")
        if line.startswith("import time:") and own.strip().isdigit():
            name = rest.partition("|")[2].strip()
            spent[name.partition(".")[0]] += int(own)
    return spent


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=20)
    runs = parser.parse_args().runs
    try:
        seconds_of_one_run()  # the first reads the files from disk and may write bytecode
        samples = [seconds_of_one_run() for _ in range(runs)]
        costs = import_microseconds()
    except subprocess.CalledProcessError as error:
        print(f"`{' '.join(error.cmd)}` failed with exit code {error.returncode}", file=sys.stderr)
        return 1
    median = statistics.median(samples)
    kept = "within" if median <= LIMIT_SECONDS else "over"
    print(f"nanodyno --help, {runs} runs: median {median:.3f} s, slowest {max(samples):.3f} s")
    print(f"the median is {kept} the limit of {LIMIT_SECONDS} s")
    print(f"imports, {sum(costs.values()) / 1e6:.3f} s in all (the interpreter's count slows them down):")
    for name, spent in costs.most_common(SHOWN):
        print(f"  {name}: {spent / 1e3:.1f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
