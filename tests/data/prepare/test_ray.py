"""On a cluster of two nodes, one of them killed at work, the output is that of one machine to the byte."""

import json
import random
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from nanodyno.data.prepare.pipeline import BatchWritten, FillJob, Gap
from nanodyno.data.prepare.ray import fill_on_ray
from nanodyno.data.prepare.request import Choices, Destination, run_preparation
from nanodyno.errors import NanodynoError

pytest.importorskip("ray", reason="ray is not installed (the extra `ray`)")
psutil = pytest.importorskip("psutil", reason="psutil, by which the node is killed, is not installed")

FILES, DOCUMENTS = 3, 300
# A node is given up after a second without a sign of life, not after fifteen.
SOON_MISSED = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 300,
    "health_check_timeout_ms": 1000,
    "health_check_failure_threshold": 3,
}
CHOICES = Choices(tokenizer="bytes", val=0.1, dedup=True, shard_tokens=20_000)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head and a node of one CPU each; whatever happens, their processes and files are gone afterwards."""
    import ray
    from ray.cluster_utils import Cluster

    session = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # a short path: sockets lie there
    small: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_TMPDIR", str(session))
        patch.setenv("TMPDIR", str(session))
        made = Cluster()
        try:
            made.add_node(include_dashboard=False, _system_config=SOON_MISSED, **small)
            made.add_node(**small)
            yield made
        finally:
            ray.shutdown()
            made.shutdown()
            shutil.rmtree(session, ignore_errors=True)


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files of about 180,000 bytes, with every tenth document in all of them."""
    folder = tmp_path_factory.mktemp("texts")
    seeded = random.Random(0)
    shared = [" ".join(seeded.choices(["ab", "cde", "fghi"], k=150)) for _ in range(DOCUMENTS // 10)]
    for number in range(FILES):
        own = [f"{number} " + " ".join(seeded.choices("abcdefgh", k=300)) for _ in range(DOCUMENTS * 9 // 10)]
        rows = own + shared
        seeded.shuffle(rows)
        lines = [json.dumps({"text": text}) + "\n" for text in rows]
        (folder / f"{number}.jsonl").write_text("".join(lines))
    return folder


def prepared(source: Path | str, folder: Path, choices: Choices = CHOICES, **means: Any) -> dict[str, bytes]:
    """All files of a preparation by name."""
    run_preparation(str(source), choices, Destination(folder, workers=1, watch=lambda _: None, **means))
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def kill_at_work(cluster: Any, node: Any) -> None:
    """Once a worker of this node is at one of our inputs: all its processes at a stroke."""
    raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
    end = time.monotonic() + 300
    while not any("prepare_parts" in " ".join(child.cmdline()) for child in raylet.children(recursive=True)):
        assert time.monotonic() < end, "the second node got no work"
        time.sleep(0.02)
    workers = raylet.children(recursive=True)
    cluster.remove_node(node, allow_graceful=False)
    for worker in workers:
        with suppress(psutil.NoSuchProcess):
            worker.kill()


def test_a_node_killed_at_work_changes_no_byte(cluster: Any, texts: Path, tmp_path: Path) -> None:
    """The second node cannot have finished: an input has eight parts, a node is at most two ahead of us, and
    it is killed at the first that comes."""
    doomed = cluster.worker_nodes.copy().pop()
    reported: list[str] = []

    def killing(job: FillJob, gaps: list[Gap], tokens_before: int) -> Iterator[BatchWritten]:
        steps = fill_on_ray(job, gaps, tokens_before, cluster.address, reported.append)
        for number, step in enumerate(steps):
            if number == 0:
                kill_at_work(cluster, doomed)
            yield step

    expected = prepared(texts, tmp_path / "here")
    assert len([name for name in expected if name.startswith("train-00000")]) >= 8
    assert json.loads(expected["manifest.json"])["source"]["duplicates"] == 2 * DOCUMENTS // 10
    assert prepared(texts, tmp_path / "cluster", fill=killing) == expected
    assert [text for text in reported if "was lost on the cluster" in text]


def test_a_limit_on_tokens_ends_at_the_same_document(cluster: Any, texts: Path, tmp_path: Path) -> None:
    choices = replace(CHOICES, tokens=200_000)  # within the second file
    on_ray = partial(fill_on_ray, address=cluster.address, tell=lambda _: None)
    expected = prepared(texts, tmp_path / "here", choices)
    assert not [name for name in expected if "-00002-" in name]
    assert prepared(texts, tmp_path / "cluster", choices, fill=on_ray) == expected


def test_what_a_node_finds_wrong_is_reported_here(cluster: Any, texts: Path, tmp_path: Path) -> None:
    bad = tmp_path / "texts"
    shutil.copytree(texts, bad)
    with (bad / "1.jsonl").open("a") as file:
        file.write("no JSON\n")
    on_ray = partial(fill_on_ray, address=cluster.address, tell=lambda _: None)
    with pytest.raises(NanodynoError, match=r"line 301 of 1\.jsonl is not JSON") as caught:
        prepared(bad, tmp_path / "cluster", fill=on_ray)
    assert "--skip-bad" in str(caught.value.hint)


def test_nodes_fetch_their_files_from_the_hub_themselves(
    cluster: Any, hub: Any, texts: Path, tmp_path: Path
) -> None:
    hub.files = {f"data/{path.name}": path.read_bytes() for path in texts.iterdir()}
    on_ray = partial(fill_on_ray, address=cluster.address, tell=lambda _: None)
    source = "HuggingFaceFW/fineweb-edu/data"
    expected = prepared(source, tmp_path / "here")
    assert prepared(source, tmp_path / "cluster", fill=on_ray) == expected


@pytest.mark.parametrize("address", ["somewhere", "ray://host:10001", "host:port", "127.0.0.1:99999", None])
def test_an_address_without_a_cluster_is_the_users_mistake(
    address: str | None, texts: Path, tmp_path: Path
) -> None:
    if address is None:
        with socket.create_server(("127.0.0.1", 0)) as unused:
            address = f"127.0.0.1:{unused.getsockname()[1]}"
    on_ray = partial(fill_on_ray, address=address, tell=lambda _: None)
    with pytest.raises(NanodynoError, match=r"not the address of a cluster|no Ray cluster answers") as caught:
        prepared(texts, tmp_path / "cluster", fill=on_ray)
    assert caught.value.exit_code == 2
    assert "ray start --head" in str(caught.value.hint)
