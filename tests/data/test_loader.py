"""Every token once an epoch, in an order that hangs on the seed and the position only."""

import threading
import time
from itertools import islice

import numpy as np
import pytest
import torch

from nanodyno.data.loader import BATCHES_AT_ONCE, Loader, Windows, evaluation_batches
from nanodyno.data.shards import TokenFiles
from nanodyno.errors import NanodynoError

CPU = torch.device("cpu")


def token_files(*arrays: np.ndarray) -> TokenFiles:
    names = tuple(f"part{number}.bin" for number in range(len(arrays)))
    return TokenFiles("tiny/train", names, arrays)


def counting(length: int, first: int = 0) -> np.ndarray:
    return np.arange(first, first + length, dtype=np.uint16)


def test_targets_are_the_inputs_shifted_by_one() -> None:
    x, y = Windows(token_files(counting(50)), 4, 50).batch(np.arange(12))
    assert (x.shape, x.dtype, y.dtype) == ((12, 4), np.int64, np.int64)
    assert (y == x + 1).all()
    assert (np.diff(x) == 1).all()


def test_every_token_is_an_input_once_an_epoch_when_windows_fit() -> None:
    # 41 tokens and 4 a window: 10 windows take tokens 0 to 39 in, and token 40 is only ever a target.
    windows = Windows(token_files(counting(41)), 4, 41, seed=3)
    assert windows.count == 10
    for epoch in range(3):
        x, y = windows.batch(np.arange(10 * epoch, 10 * epoch + 10))
        assert sorted(x.ravel().tolist()) == list(range(40))
        assert sorted(y.ravel().tolist()) == list(range(1, 41))


def test_the_tail_that_is_left_out_differs_from_epoch_to_epoch() -> None:
    # 44 tokens: 10 windows of 4 use 40 inputs, and of the 43 possible ones 3 are left out.
    windows = Windows(token_files(counting(44)), 4, 44, seed=3)
    firsts = set()
    for epoch in range(40):
        x, _ = windows.batch(np.arange(10 * epoch, 10 * epoch + 10))
        inputs = sorted(x.ravel().tolist())
        assert inputs == list(range(inputs[0], inputs[0] + 40))
        firsts.add(inputs[0])
    assert firsts == {0, 1, 2, 3}


def test_windows_stay_inside_their_files() -> None:
    # 9 and 13 tokens make 2 and 3 windows of 4; the file of 4 tokens is too short for one.
    windows = Windows(token_files(counting(9), counting(4, 100), counting(13, 200)), 4, 300)
    assert windows.count == 5
    x, y = windows.batch(np.arange(5))
    assert sorted(x.ravel().tolist()) == [*range(8), *range(200, 212)]
    assert (y == x + 1).all()


def test_an_epoch_is_shuffled_and_the_next_one_otherwise() -> None:
    windows = Windows(token_files(counting(401)), 4, 401)
    first, second = windows.batch(np.arange(100))[0], windows.batch(np.arange(100, 200))[0]
    assert not (first == np.sort(first, axis=0)).all()
    assert not (first == second).all()


def test_the_seed_chooses_the_order() -> None:
    streams = [
        Windows(token_files(counting(401)), 4, 401, seed).batch(np.arange(100))[0] for seed in (1, 1, 2)
    ]
    assert (streams[0] == streams[1]).all()
    assert not (streams[0] == streams[2]).all()


@pytest.mark.parametrize("batch_size", [1, 2, 3, 8])
def test_the_stream_is_the_same_whatever_the_micro_batch(batch_size: int) -> None:
    # 10 windows an epoch, 24 sequences: batches of 3 and 8 reach across the ends of epochs.
    windows = Windows(token_files(counting(43)), 4, 43, seed=9)
    whole = windows.batch(np.arange(24))
    with Loader(windows, batch_size, CPU) as loader:
        batches = list(islice(loader, 24 // batch_size))
    assert torch.cat([x for x, _ in batches]).tolist() == whole[0].tolist()
    assert torch.cat([y for _, y in batches]).tolist() == whole[1].tolist()


def test_a_loader_goes_on_from_any_position() -> None:
    windows = Windows(token_files(counting(43)), 4, 43, seed=9)
    with Loader(windows, 3, CPU) as whole, Loader(windows, 3, CPU, start=6) as resumed:
        expected = list(islice(whole, 5))[2:]
        assert [x.tolist() for x, _ in islice(resumed, 3)] == [x.tolist() for x, _ in expected]


def test_a_split_too_short_for_a_window_is_refused() -> None:
    with pytest.raises(NanodynoError, match=r"tiny/train has no file of 9 tokens.*longest has 8"):
        Windows(token_files(counting(8)), 8, 100)
    assert Windows(token_files(counting(9)), 8, 100).count == 1


def test_a_token_outside_the_vocabulary_is_refused_with_its_file() -> None:
    windows = Windows(token_files(counting(9), counting(9, 50)), 4, 58)
    with pytest.raises(NanodynoError, match=r"part1\.bin holds token 58, outside vocab_size=58"):
        windows.batch(np.arange(4))


def test_an_error_in_the_thread_reaches_the_consumer_every_time() -> None:
    windows = Windows(token_files(counting(41)), 4, 20)
    with Loader(windows, 10, CPU) as loader:
        for _ in range(2):
            with pytest.raises(NanodynoError, match="outside vocab_size=20"):
                next(loader)


def test_closing_ends_the_thread_even_when_the_queue_is_full() -> None:
    loader = Loader(Windows(token_files(counting(41)), 4, 41), 2, CPU)
    thread = next(thread for thread in threading.enumerate() if thread.name == "loader")
    time.sleep(0.02)
    loader.close()
    assert not thread.is_alive()
    assert list(loader) == []
    loader.close()


def test_waiting_is_counted_only_when_the_next_portion_is_not_at_hand() -> None:
    with Loader(Windows(token_files(counting(41)), 4, 41), 2, CPU) as loader:
        assert loader.wait_seconds == 0
        next(loader)
        first = loader.wait_seconds
        assert first > 0
        list(islice(loader, BATCHES_AT_ONCE - 1))
        assert loader.wait_seconds == first
        next(loader)
        assert loader.wait_seconds > first


def test_evaluation_takes_the_same_sequences_spread_evenly_whatever_the_batch() -> None:
    # 10 windows of 4 tokens; 20 tokens are 5 sequences: windows 0, 2, 4, 6 and 8.
    windows = Windows(token_files(counting(43)), 4, 43, seed=9)
    expected = [[first, first + 1, first + 2, first + 3] for first in (0, 8, 16, 24, 32)]
    for batch_size in (1, 2, 3, 8):
        for _ in range(2):
            batches = list(evaluation_batches(windows, 20, batch_size))
            assert np.concatenate([x for x, _ in batches]).tolist() == expected
            assert all((y == x + 1).all() for x, y in batches)
    assert [len(x) for x, _ in evaluation_batches(windows, 20, 2)] == [2, 2, 1]


def test_evaluation_takes_at_least_one_sequence_and_at_most_all() -> None:
    windows = Windows(token_files(counting(43)), 4, 43)
    assert [len(x) for x, _ in evaluation_batches(windows, 1, 8)] == [1]
    assert [len(x) for x, _ in evaluation_batches(windows, 10**6, 8)] == [8, 2]
