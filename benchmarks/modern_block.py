"""What each part of the modern block brings at equal tokens, alone and with all others: val loss by seed.

    python benchmarks/modern_block.py                  # bytes of the embedded corpus, a small model, a CPU
    python benchmarks/modern_block.py --only plain muon all --seeds 5 --iters 400 [--KEY=VALUE ...]
    python benchmarks/modern_block.py --n_layer=12 --n_embd=768 --n_head=12 --block_size=1024 \\
        --batch_size=64 --learning_rate=1e-3 --dataset=DIR --compile=True    # on a card

Every part keeps the plain run's learning rate and everything else: none of them was tuned, and a part may do
better with settings of its own. The difference to plain is taken seed by seed, since a seed also means the
same data in the same order; its interval is Student's over the seeds.
"""

import argparse
import json
import statistics
import sys
from dataclasses import asdict
from pathlib import Path

from scipy.stats import t as student

from nanodyno.recipes.commandline import parse_overrides
from trials import Trial, config_for, run_trial

SMALL: dict[str, object] = {
    "n_layer": 4,
    "n_head": 4,
    "n_embd": 96,
    "block_size": 128,
    "batch_size": 8,
    "gradient_accumulation_steps": 1,
    "learning_rate": 3e-3,
    "warmup_iters": 10,
    "tokenizer": "bytes",
    "dataset": "python",
    "compile": False,
}
PARTS: dict[str, dict[str, object]] = {
    "rope": {"positions": "rope"},
    "QK norm": {"qk_norm": True},
    "ReLU squared": {"activation": "relu2"},
    "RMS norm": {"norm": "rms"},
    "zero init": {"zero_init": True},
    "untied head": {"untied_head": True},
    "soft-cap": {"logit_softcap": 15.0},
    "value embeddings": {"value_embeddings": 2},
    "half the kv heads": {"n_kv_head": 2},
    "window": {"window": 32},
    "muon": {"optimizer": "muon"},
    "wsd": {"schedule": "wsd"},
    "cautious decay": {"cautious_decay": True},
}
ALL: dict[str, object] = {key: value for part in PARTS.values() for key, value in part.items()}
VARIANTS: dict[str, dict[str, object]] = {"plain": {}, **PARTS, "all": ALL}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--iters", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--val-tokens", type=int, default=32_768)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--json", type=Path)
    given, others = parser.parse_known_args()
    base = SMALL | dict(parse_overrides(others)) | {"max_iters": given.iters}
    trials: dict[str, list[Trial]] = {}
    for seed in range(1, given.seeds + 1):  # one seed of all before the next: what disturbs, disturbs all
        for name in given.only:
            config = config_for(base | VARIANTS[name] | {"seed": seed}, None)
            trial = run_trial(config, given.data, given.val_tokens)
            trials.setdefault(name, []).append(trial)
            print(
                f"{name}, seed {seed}: {trial.val_loss:.4f}, {trial.wall_seconds:.0f} s",
                file=sys.stderr,
                flush=True,
            )
            if given.json:
                given.json.write_text(
                    json.dumps({key: [asdict(t) for t in value] for key, value in trials.items()})
                )
    print(table(trials))


def table(trials: dict[str, list[Trial]]) -> str:
    lines = ["| part | parameters | val loss | less than plain's | tokens/s |", "|---|---|---|---|---|"]
    plain = [trial.val_loss for trial in trials.get("plain", [])]
    for name, ones in trials.items():
        losses = [trial.val_loss for trial in ones]
        spread = f" ({min(losses):.4f} to {max(losses):.4f})" if len(losses) > 1 else ""
        gain = (
            ""
            if name == "plain" or not plain
            else interval([a - b for a, b in zip(plain, losses, strict=True)])
        )
        speed = statistics.median(trial.tokens_per_second for trial in ones)
        size, mean = ones[0].parameters, statistics.fmean(losses)
        lines.append(f"| {name} | {size:,} | {mean:.4f}{spread} | {gain} | {speed:,.0f} |")
    return "\n".join(lines)


def interval(differences: list[float]) -> str:
    mean = statistics.fmean(differences)
    if len(differences) < 2:
        return f"{mean:+.4f}"
    half = student.ppf(0.975, len(differences) - 1) * statistics.stdev(differences) / len(differences) ** 0.5
    return f"{mean:+.4f} +- {half:.4f}"


if __name__ == "__main__":
    main()
