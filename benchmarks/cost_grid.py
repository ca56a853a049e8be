"""The configs that the cost model is measured on, and what was measured of each, a JSON line a config.

Both the grid and the eight configs that no calibration may see are drawn by fixed seeds, here and before
anything is measured.
"""

import json
import random
from dataclasses import asdict, dataclass
from pathlib import Path

from nanodyno.config import RunConfig, build_config, padded_vocab_size
from nanodyno.costs.setup import Dtype, Setup, settle

WIDTHS, DEPTHS = (384, 768, 1024), (6, 12, 24)
MICRO_BATCHES, BLOCKS = (4, 8, 16, 32, 64), (512, 1024)
WAYS: dict[str, dict[str, object]] = {
    "fused": {"kernels": "fused", "recompute": "none"},
    "fused light": {"kernels": "fused", "recompute": "light"},
    "fused chunked": {"kernels": "fused", "recompute": "none", "loss_chunk_size": 4096},
    "compiled": {"kernels": "autograd", "compile": True},
    "compiled chunked": {"kernels": "autograd", "compile": True, "loss_chunk_size": 4096},
    "eager": {"kernels": "autograd", "compile": False},
    "eager chunked": {"kernels": "autograd", "compile": False, "loss_chunk_size": 4096},
}
PER_SHAPE = 4
TOKENS_PER_ITER = 131_072
MOST_COMPILED_DEPTH = 12
"""Compiling 24 layers takes longer than measuring the rest."""
MOST_EAGER_LOGITS = 32 * 1024
"""Positions: eager logits of more would fill the card alone."""
GRID_SEED, HELD_OUT_SEED, HELD_OUT = 7, 2026, 8
LAUNCHES = (
    ("compiled", 768, 6, 4),
    ("compiled", 384, 12, 8),
    ("compiled", 768, 12, 8),
    ("compiled chunked", 768, 6, 4),
)
"""Way, width, depth, micro-batch: bound by launching, as but one of the grid is, which is held out."""
GPT2_VOCABULARY = 50257
DATA = Path(__file__).with_name("cost_grid_h200.jsonl")


@dataclass(frozen=True)
class Point:
    """`name` tells it apart; `settings` are those of build_config."""

    name: str
    settings: dict[str, object]

    @property
    def config(self) -> RunConfig:
        return build_config(self.settings)


@dataclass(frozen=True)
class Found:
    """What came of a config; without numbers, `fault` says why."""

    name: str
    device: str
    torch: str
    device_memory_bytes: int | None = None
    allocated_bytes: int | None = None
    reserved_bytes: int | None = None
    context_bytes: int | None = None
    """What the card holds besides what the allocator does: right where nobody else is on the card."""
    iteration_seconds: tuple[float, ...] = ()
    attention: str | None = None
    recompute: str | None = None
    wall_seconds: float | None = None
    fault: str | None = None


def grid(tiny: bool = False) -> list[Point]:
    """36 configs: for each width and depth four others; every way is there at least four times."""
    draw = random.Random(GRID_SEED)
    points: dict[str, Point] = {}
    ways = list(WAYS)
    for width in WIDTHS:
        for depth in DEPTHS:
            wanted = len(points) + PER_SHAPE
            while len(points) < wanted:
                point = _point(width, depth, ways[len(points) % len(ways)], draw, tiny)
                if point is not None:
                    points[point.name] = point
                elif depth > MOST_COMPILED_DEPTH:
                    ways = ways[1:] + ways[:1]
    return list(points.values())


def launches(tiny: bool = False) -> list[Point]:
    """Outside of the grid, measured beside it: for the calibration alone."""
    return [_named(width, depth, way, (size, min(BLOCKS)), tiny) for way, width, depth, size in LAUNCHES]


def held_out(points: list[Point]) -> set[str]:
    """One of each way, and one more."""
    draw = random.Random(HELD_OUT_SEED)
    names = sorted(point.name for point in points)
    apart = {draw.choice([name for name in names if name.split(",")[0] == way]) for way in WAYS}
    return apart | set(draw.sample([name for name in names if name not in apart], HELD_OUT - len(apart)))


def setup_of(point: Point, found: Found | None = None) -> Setup:
    """As the trainer settles it on that card, with what it measured to be the fastest attention."""
    config = point.config
    vocab_size = config.vocab_size or padded_vocab_size(GPT2_VOCABULARY)
    dtype: Dtype = "float32" if config.device == "cpu" else "bfloat16"
    memory = None if found is None else found.device_memory_bytes
    return settle(config, config.model_shape(vocab_size), dtype, memory)


def read(path: Path) -> dict[str, Found]:
    """The last word on each; a line that a kill cut short is dropped."""
    found: dict[str, Found] = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                values = json.loads(line)
            except json.JSONDecodeError:
                continue
            values["iteration_seconds"] = tuple(values["iteration_seconds"])
            found[values["name"]] = Found(**values)
    return found


def append(path: Path, found: Found) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(found)) + "\n")


def _point(width: int, depth: int, way: str, draw: random.Random, tiny: bool) -> Point | None:
    """None where this way cannot be asked of such a model."""
    size, block = draw.choice(MICRO_BATCHES), draw.choice(BLOCKS)
    if way.startswith("compiled") and depth > MOST_COMPILED_DEPTH:
        return None
    if way == "eager" and size * block > MOST_EAGER_LOGITS:
        return None
    return _named(width, depth, way, (size, block), tiny)


def _named(width: int, depth: int, way: str, batch: tuple[int, int], tiny: bool) -> Point:
    size, block = batch
    settings: dict[str, object] = {
        "n_layer": depth,
        "n_embd": width,
        "block_size": block,
        "batch_size": size,
        "tokens_per_iter": max(TOKENS_PER_ITER, size * block),
        "dataset": "python",
        "tokenizer": "gpt2",
        **WAYS[way],
    }
    if tiny:
        settings |= {
            "n_layer": depth // 6, "n_embd": width // 6 // 64 * 64 or 64, "block_size": block // 16,
            "batch_size": max(1, size // 8), "vocab_size": 512, "device": "cpu", "dtype": "float32",
        }  # fmt: skip
        settings["tokens_per_iter"] = 2 * (block // 16) * max(1, size // 8)
    return Point(f"{way}, {depth} x {width}, {size} x {block}", settings)
