"""Files come from a hub that drops connections and answers 429 and 503 as they are there, byte for byte."""

import hashlib
import random
import socket
from pathlib import Path
from typing import Any

import pytest

from nanodyno.data.prepare.hub import HubFile, HubName, connect, fetch, hub_name, list_files
from nanodyno.data.prepare.transfer import Patience, Remote, Stopped, Transfer
from nanodyno.errors import NanodynoError, RunFailed

QUICK = Patience(attempts=30, first_wait_seconds=0.001, longest_wait_seconds=0.002, timeout_seconds=5)
HASTY = Patience(attempts=3, first_wait_seconds=0.001, longest_wait_seconds=0.002, timeout_seconds=5)
SAMPLE = HubName("HuggingFaceFW/fineweb-edu", "sample/10BT")
COMMIT = "5b8a5a1f3e5c0d9e7c1b2a3f4d5e6f708192a3b4"
FIRST = "sample/10BT/000_00000.parquet"


def trouble_reported(transfer: Transfer, reported: list[str]) -> Transfer:
    return Transfer(transfer.headers, transfer.patience, reported.append)


@pytest.mark.parametrize(
    ("typed", "repo", "path"),
    [
        ("fineweb-edu", "HuggingFaceFW/fineweb-edu", "sample/10BT"),
        ("fineweb-edu/350BT", "HuggingFaceFW/fineweb-edu", "sample/350BT"),
        ("fineweb/CC-MAIN-2024-10", "HuggingFaceFW/fineweb", "data/CC-MAIN-2024-10"),
        ("fineweb/data", "HuggingFaceFW/fineweb", "data"),
        ("roneneldan/TinyStories", "roneneldan/TinyStories", ""),
        ("roneneldan/TinyStories/data/train-*.parquet", "roneneldan/TinyStories", "data/train-*.parquet"),
    ],
)
def test_a_name_says_which_dataset_and_what_of_it(typed: str, repo: str, path: str) -> None:
    assert hub_name(typed) == HubName(repo, path)


@pytest.mark.parametrize("typed", ["corpus", "./corpus/a", "/abs/corpus", "~/corpus", "a b/c"])
def test_what_can_only_be_a_path_is_no_name_on_the_hub(typed: str) -> None:
    assert hub_name(typed) is None


def test_a_part_that_fineweb_does_not_have_is_answered_with_those_it_has() -> None:
    with pytest.raises(NanodynoError, match="no part '10B'") as caught:
        hub_name("fineweb-edu/10B")
    assert "10BT, 100BT, 350BT" in str(caught.value.hint)


def test_a_listing_is_pinned_to_the_commit_and_tells_sizes_and_checksums(hub: Any) -> None:
    listing = list_files(connect(QUICK), SAMPLE)
    assert (listing.repo, listing.revision) == ("HuggingFaceFW/fineweb-edu", COMMIT)
    assert [file.path for file in listing.files] == [f"sample/10BT/{n:03}_00000.parquet" for n in (0, 1, 2)]
    assert [file.remote.size_bytes for file in listing.files] == [400_000, 400_001, 400_002]
    first = listing.files[0].remote
    assert first.sha256 == hashlib.sha256(hub.files[FIRST]).hexdigest()
    assert f"/resolve/{COMMIT}/" in first.address


def test_the_simulated_hub_is_one_to_the_hubs_own_library(
    hub: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)  # other tests want it offline
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import RepoFile

    api = HfApi(endpoint=hub.endpoint, token=False)
    tree = api.list_repo_tree(SAMPLE.repo, SAMPLE.path, recursive=True, revision=COMMIT, repo_type="dataset")
    files = [file for file in tree if isinstance(file, RepoFile)]
    theirs = [(file.path, file.size, file.lfs and file.lfs.sha256) for file in files]
    ours = list_files(connect(QUICK), SAMPLE).files
    assert theirs == [(file.path, file.remote.size_bytes, file.remote.sha256) for file in ours]
    path = api.hf_hub_download(SAMPLE.repo, FIRST, repo_type="dataset", revision=COMMIT, local_dir=tmp_path)
    assert Path(path).read_bytes() == hub.files[FIRST]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("sample/10BT/001_00000.parquet", ["sample/10BT/001_00000.parquet"]),
        ("sample/10BT/00[12]_*.parquet", ["sample/10BT/001_00000.parquet", "sample/10BT/002_00000.parquet"]),
        ("data", ["data/CC-MAIN-2024-10/train-00000-of-00001.parquet"]),
    ],
)
@pytest.mark.usefixtures("hub")
def test_a_path_may_be_a_file_a_pattern_or_a_folder(path: str, expected: list[str]) -> None:
    listing = list_files(connect(QUICK), HubName(SAMPLE.repo, path))
    assert [file.path for file in listing.files] == expected


def test_a_pattern_at_the_top_of_a_dataset_is_one_too(hub: Any) -> None:
    hub.files |= {"train-0.jsonl": b"", "train-1.jsonl.gz": b"", "test-0.jsonl": b""}
    listing = list_files(connect(QUICK), HubName(SAMPLE.repo, "train-*"))
    assert [file.path for file in listing.files] == ["train-0.jsonl", "train-1.jsonl.gz"]


def test_without_a_path_all_files_of_text_are_listed_and_no_others(hub: Any) -> None:
    listing = list_files(connect(QUICK), HubName(SAMPLE.repo, ""))
    assert [file.path for file in listing.files] == sorted(set(hub.files) - {"README.md"})


def test_a_dataset_without_files_of_text_says_what_it_has(hub: Any) -> None:
    hub.files = {"README.md": b"", "train.arrow": b""}
    with pytest.raises(NanodynoError, match="no text files at its top") as caught:
        list_files(connect(QUICK), HubName(SAMPLE.repo, ""))
    assert "README.md, train.arrow" in str(caught.value.hint)


@pytest.mark.usefixtures("hub")
def test_a_dataset_that_is_not_there_is_the_users_to_correct_and_is_not_asked_for_again() -> None:
    reported: list[str] = []
    with pytest.raises(NanodynoError, match="404 Repository not found") as caught:
        list_files(trouble_reported(connect(QUICK), reported), HubName("nobody/nothing", ""))
    assert caught.value.exit_code == 2
    assert reported == []


@pytest.mark.parametrize("seed", range(3))
def test_files_from_a_hub_that_misbehaves_are_identical(hub: Any, seed: int, tmp_path: Path) -> None:
    hub.trouble, hub.dice = 0.6, random.Random(seed)
    reported: list[str] = []
    transfer = trouble_reported(connect(QUICK), reported)
    listing = list_files(transfer, SAMPLE)
    for file in listing.files:
        path = fetch(transfer, file, tmp_path)
        assert path == tmp_path / file.path
        assert path.read_bytes() == hub.files[file.path]
    assert {0, 200, 302, 429, 503} <= set(hub.answers)
    assert len(reported) == sum(hub.answers.count(status) for status in (0, 429, 503))
    assert not list(tmp_path.rglob("*.part"))


def test_a_connection_dropped_in_mid_file_is_taken_up_where_it_broke(hub: Any, tmp_path: Path) -> None:
    """Pieces of 65,536 bytes are written: three of the first 200,000, then one of the next 100,000."""
    hub.cuts = [200_000, 100_000]
    transfer = connect(QUICK)
    path = fetch(transfer, list_files(transfer, SAMPLE).files[0], tmp_path)
    assert hub.ranges == ["bytes=196608-", "bytes=262144-"]
    assert path.read_bytes() == hub.files[FIRST]


def test_a_hub_that_gives_a_little_each_time_never_exhausts_our_patience(hub: Any, tmp_path: Path) -> None:
    hub.cuts = [70_000] * 5
    transfer = connect(HASTY)  # three failures in a row are its end
    path = fetch(transfer, list_files(transfer, SAMPLE).files[0], tmp_path)
    assert path.read_bytes() == hub.files[FIRST]


def test_what_an_earlier_process_fetched_is_taken_up_and_a_whole_file_is_not_fetched_again(
    hub: Any, tmp_path: Path
) -> None:
    transfer = connect(QUICK)
    file = list_files(transfer, SAMPLE).files[0]
    path = tmp_path / FIRST
    path.parent.mkdir(parents=True)
    path.with_name("000_00000.parquet.part").write_bytes(hub.files[FIRST][:1234])
    assert fetch(transfer, file, tmp_path) == path
    assert hub.ranges == ["bytes=1234-"]
    asked = len(hub.answers)
    assert fetch(transfer, file, tmp_path).read_bytes() == hub.files[FIRST]
    assert len(hub.answers) == asked


def test_a_server_that_ignores_ranges_is_read_from_the_beginning(hub: Any, tmp_path: Path) -> None:
    hub.cuts, hub.honours_ranges = [200_000], False
    transfer = connect(QUICK)
    path = fetch(transfer, list_files(transfer, SAMPLE).files[0], tmp_path)
    assert path.read_bytes() == hub.files[FIRST]


@pytest.mark.parametrize("large", [True, False])
@pytest.mark.parametrize("there", ["same size", "too long", "whole but damaged"])
def test_damaged_bytes_on_this_machine_are_fetched_anew(
    hub: Any, large: bool, there: str, tmp_path: Path
) -> None:
    hub.large = large
    transfer = connect(QUICK)
    file = list_files(transfer, SAMPLE).files[0]
    assert (file.remote.sha256 is None) != large
    content = hub.files[FIRST]
    name = FIRST if there == "whole but damaged" else f"{FIRST}.part"
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_bytes(content + b"!" if there == "too long" else b"!" + content[1:])
    assert fetch(transfer, file, tmp_path).read_bytes() == content


def test_a_file_that_always_arrives_damaged_is_named_and_left_nowhere(hub: Any, tmp_path: Path) -> None:
    transfer = connect(HASTY)
    file = list_files(transfer, SAMPLE).files[0]
    hub.files[FIRST] = b"!" + hub.files[FIRST][1:]
    with pytest.raises(RunFailed, match=r"000_00000.parquet could not be .* 3 attempts: it arrived damaged"):
        fetch(transfer, file, tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_hub_that_stays_busy_ends_the_run_and_says_how_to_go_on(hub: Any) -> None:
    hub.refusals = [(503, {})] * 3
    with pytest.raises(RunFailed, match="3 attempts: it answered 503") as caught:
        list_files(connect(HASTY), SAMPLE)
    assert "repeat the command" in str(caught.value.hint)


def test_a_hub_that_does_not_answer_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    patience = Patience(attempts=2, first_wait_seconds=0.001, timeout_seconds=0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts and never says a word
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(RunFailed, match="2 attempts: it did not respond in time"):
            list_files(connect(patience), SAMPLE)
    with pytest.raises(RunFailed, match="the connection failed"):  # nobody listens there any more
        list_files(connect(patience), SAMPLE)


@pytest.mark.parametrize("endpoint", ["huggingface.co", "ftp://huggingface.co", "http://"])
def test_an_endpoint_that_is_no_address_is_the_users_mistake(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    with pytest.raises(NanodynoError) as caught:
        list_files(connect(HASTY), SAMPLE)
    assert caught.value.exit_code == 2
    assert "HF_ENDPOINT" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Retry-After": "7"}, "7 s"),
        ({"RateLimit": '"resolvers";r=0;t=55'}, "55 s"),
        ({"Retry-After": "86400"}, "600 s"),  # no longer than ten minutes, whatever is asked
        ({"Retry-After": "Thu, 01 Jan 2026 00:00:00 GMT"}, "3 s"),
        ({"Retry-After": "0"}, "3 s"),  # no less than we would have waited
        ({"Retry-After": "soon"}, "3 s"),
        ({}, "3 s"),
    ],
)
def test_the_wait_is_no_less_than_the_hub_asks_for(hub: Any, headers: dict[str, str], expected: str) -> None:
    reported: list[str] = []
    hub.refusals = [(429, headers)]
    transfer = Transfer({}, Patience(first_wait_seconds=3), reported.append)
    transfer.stop.set()  # instead of waiting
    with pytest.raises(Stopped):
        list_files(transfer, SAMPLE)
    assert reported[0].endswith(f"it answered 429 Too Many Requests; trying again in {expected}")


def test_waits_double_up_to_the_longest() -> None:
    patience = Patience(first_wait_seconds=1, longest_wait_seconds=5)
    assert [patience.wait_seconds(failures, None) for failures in (1, 2, 3, 4, 60)] == [1, 2, 4, 5, 5]


def test_the_token_goes_to_the_hub_and_never_to_where_it_sends_us(hub: Any, tmp_path: Path) -> None:
    transfer = connect(QUICK)
    fetch(transfer, list_files(transfer, SAMPLE).files[0], tmp_path)
    assert hub.tokens == {"api": "Bearer secret", "datasets": "Bearer secret", "cdn": None}


@pytest.mark.parametrize("path", ["../outside.parquet", "/etc/x.parquet", "a//b.parquet", "c:x.parquet"])
def test_a_listed_path_that_leads_out_of_the_folder_is_refused(hub: Any, path: str) -> None:
    hub.files = {path: b""}
    with pytest.raises(RunFailed, match="lists a file named"):
        list_files(connect(QUICK), HubName(SAMPLE.repo, ""))


@pytest.mark.parametrize("answer", [b"<html>sign in</html>", b"[]", b'{"id": "x"}'])
def test_a_sign_in_page_or_another_service_is_no_hub(hub: Any, answer: bytes) -> None:
    hub.instead = answer
    with pytest.raises(
        RunFailed, match=r"something other than JSON|does not respond like the Hugging Face hub"
    ):
        list_files(connect(HASTY), SAMPLE)


def test_a_file_larger_than_the_free_space_says_how_much_it_needs(tmp_path: Path) -> None:
    remote = Remote("http://127.0.0.1:9/never", 2**60)
    with pytest.raises(RunFailed, match=r"no space for a.parquet: it needs 1073741824.00 GiB more"):
        fetch(Transfer(patience=HASTY), HubFile("a.parquet", remote), tmp_path)
