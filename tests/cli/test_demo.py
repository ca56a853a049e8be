import json
from collections.abc import Callable
from typing import Any


def test_the_demo_trains_two_runs_and_samples_from_the_better_one(nanodyno: Callable[..., Any]) -> None:
    result = nanodyno("demo", "--max-iters", "2", "--device", "cpu", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    narrow, wide = document["runs"]
    assert wide["run"]["config"]["n_embd"] == 2 * narrow["run"]["config"]["n_embd"]
    assert narrow["summary"]["tokens_seen"] == wide["summary"]["tokens_seen"]
    losses = {run["summary"]["name"]: run["summary"]["last_val"]["loss"] for run in document["runs"]}
    assert document["better"] == min(losses, key=lambda name: losses[name])
    assert document["sample"].startswith("def ")
