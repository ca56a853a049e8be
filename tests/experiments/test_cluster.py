"""Probes over a cluster: two nodes of one CPU each, and one made up, whose nodes are lost."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nanodyno.analysis.asking import Ask
from nanodyno.analysis.candidates import TuneRequest
from nanodyno.config import build_config
from nanodyno.errors import NanodynoError, RunFailed
from nanodyno.experiments.cluster import (
    GRACE_SECONDS,
    Cluster,
    ClusterSlot,
    RayStopwatch,
    ray_bench,
    slots_of,
)
from nanodyno.experiments.node import NodeRequest
from nanodyno.experiments.stopwatch import Redo
from nanodyno.experiments.tune import tune
from nanodyno.probe.repetition import ProbeJob
from nanodyno.records.probe import Measured

TINY = {
    "n_layer": 1, "n_head": 1, "n_embd": 16, "block_size": 16, "batch_size": 2, "tokens_per_iter": 64,
    "tokenizer": "bytes", "device": "cpu", "compile": False,
}  # fmt: skip


def node(name: str, **resources: float) -> dict[str, Any]:
    return {"NodeID": name, "Alive": True, "Resources": {"CPU": 4.0, **resources}}


def test_every_gpu_is_a_slot_and_without_any_every_node() -> None:
    nodes = [node("a", GPU=2.0), node("b"), {"NodeID": "c", "Alive": False, "Resources": {"CPU": 1.0}}]
    assert slots_of(nodes, "auto") == [ClusterSlot("a", 0, True), ClusterSlot("a", 1, True)]
    assert slots_of(nodes, "cpu") == [ClusterSlot("a", 0, False), ClusterSlot("b", 0, False)]
    assert slots_of([node("b")], "auto") == [ClusterSlot("b", 0, False)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    ray = pytest.importorskip("ray", reason="ray is not installed (the extra `ray`)")
    from ray.cluster_utils import Cluster as RayCluster

    session = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # a short path: sockets lie there
    small: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_TMPDIR", str(session))
        patch.setenv("TMPDIR", str(session))
        made = RayCluster()
        try:
            made.add_node(include_dashboard=False, **small)
            made.add_node(**small)
            yield made
        finally:
            ray.shutdown()
            made.shutdown()
            shutil.rmtree(session, ignore_errors=True)


def test_first_looks_are_spread_over_the_nodes_never_two_on_one(cluster: Any) -> None:
    config = build_config(TINY)
    connection = Cluster(cluster.address)
    place = connection.look(config, None)
    assert "probes are spread over 2 devices of the cluster" in place.notes
    jobs = {name: ProbeJob(config=config, threads=1) for name in ("a", "b")}
    with connection.stopwatch(jobs, lambda _: None, Redo()) as stopwatch:
        assert stopwatch.at_once == 2
        found = stopwatch.measure(Ask("screening", 0, ("a", "b"), 0.3, 60.0), ["a", "b"], 60.0)
        assert all(isinstance(result, Measured) for result in found.values())
        assert len({stopwatch.placed[name] for name in ("a", "b")}) == 2


class NodeLost(Exception):
    pass


class FakeRay:
    """Tasks are done when they are waited for, the latest first; those on a node that is lost are not."""

    exceptions = SimpleNamespace(RayTaskError=ZeroDivisionError, RayError=NodeLost)

    def __init__(self) -> None:
        self.lost: set[str] = set()
        self.busy: list[ClusterSlot] = []

    def begin(
        self, slot: ClusterSlot, _: object, request: NodeRequest
    ) -> tuple[ClusterSlot, tuple[str, ...]]:
        assert slot not in self.busy, "two on one device"
        self.busy.append(slot)
        return slot, tuple(request.jobs)

    def wait(self, tasks: list[Any], **_: object) -> tuple[list[Any], list[Any]]:
        return tasks[-1:], tasks[:-1]

    def get(self, task: tuple[ClusterSlot, tuple[str, ...]]) -> dict[str, ClusterSlot]:
        self.busy.remove(task[0])
        if task[0].node in self.lost:
            raise NodeLost("gone")
        return dict.fromkeys(task[1], task[0])


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> tuple[FakeRay, RayStopwatch]:
    ray = FakeRay()
    monkeypatch.setattr("nanodyno.experiments.cluster.begin", lambda _, *task: ray.begin(*task))
    slots = [ClusterSlot("a", 0, True), ClusterSlot("a", 1, True), ClusterSlot("b", 0, True)]
    jobs = {name: ProbeJob(config=build_config(TINY)) for name in "uvwxyz"}
    return ray, RayStopwatch(ray, slots, jobs, lambda _: None, Redo(), ExitStack())


def asked(stopwatch: RayStopwatch, stage: Any, number: int, names: str) -> Any:
    return stopwatch.measure(Ask(stage, number, tuple(names), 1.0, 60.0), list(names), 60.0)


def test_more_candidates_than_gpus_wait_for_a_free_one(fake: tuple[FakeRay, RayStopwatch]) -> None:
    _, stopwatch = fake
    found = asked(stopwatch, "halving", 1, "uvwxyz")
    assert found.keys() == set("uvwxyz")
    assert {(slot.node, slot.number) for slot in found.values()} == {("a", 0), ("a", 1), ("b", 0)}


def test_a_round_of_the_final_stays_on_one_gpu_and_the_next_is_on_the_next(
    fake: tuple[FakeRay, RayStopwatch],
) -> None:
    _, stopwatch = fake
    places = [set(asked(stopwatch, "final", number, "xyz").values()) for number in range(4)]
    assert [len(each) for each in places] == [1, 1, 1, 1]
    assert len(set.union(*places)) == 3
    assert places[0] == places[3]


def test_what_a_lost_node_was_at_is_measured_elsewhere(fake: tuple[FakeRay, RayStopwatch]) -> None:
    ray, stopwatch = fake
    ray.lost = {"a"}
    assert {slot.node for slot in asked(stopwatch, "halving", 1, "wxyz").values()} == {"b"}
    assert stopwatch.at_once == 1
    ray.lost = {"a", "b"}
    with pytest.raises(RunFailed, match="the last node was lost"):
        asked(stopwatch, "halving", 2, "w")


def test_what_a_busy_cluster_does_not_begin_in_time_is_given_up(fake: tuple[FakeRay, RayStopwatch]) -> None:
    ray, stopwatch = fake
    given_up: list[Any] = []
    ray.wait = lambda tasks, **_: ([], tasks)  # type: ignore[method-assign]
    ray.cancel = lambda task, **_: given_up.append(task)  # type: ignore[attr-defined]
    assert stopwatch.measure(Ask("screening", 0, ("x",), 1.0, 60.0), ["x"], 0.2 - GRACE_SECONDS) == {}
    assert [names for _, names in given_up] == [("x",)]


def test_no_cluster_there_is_reported() -> None:
    pytest.importorskip("ray", reason="ray is not installed (the extra `ray`)")
    with pytest.raises(NanodynoError, match="not the address"):
        tune(TuneRequest(build_config(TINY), 256), bench=ray_bench("nonsense"))
