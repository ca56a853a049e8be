"""A shuffled order that is computed, not stored: a seeded bijection on range(n).

range(n) is laid out as a grid that is hardly larger, and a Feistel network shuffles it: in turn every row is
rotated by an amount that depends on the row, and every column by one that depends on the column. A value that
lands outside range(n) goes through again until it lands inside (cycle walking), which keeps it a bijection.
So any position of any epoch is known at once, resuming needs no replay, and the order does not hang on
numpy's generators, whose streams may change between versions.
"""

import math

import numpy as np

Key = tuple[int, int]  # seed, epoch

_ROUNDS = 12  # with 8, pairs of positions on tiny grids (n = 10) were not quite uniform over epochs
_WORD = 2**64 - 1
# SplitMix64's constants (Steele, Lea and Flood, 2014).
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31 = np.uint64(30), np.uint64(27), np.uint64(31)


def shuffled(positions: np.ndarray, n: int, key: Key) -> np.ndarray:
    """Where each position of range(n) goes in the key's order, as int64."""
    assert n >= 1
    columns = math.isqrt(n - 1) + 1
    rows = -(-n // columns)
    round_keys = random_words(_ROUNDS, key, stream=0)
    values = _feistel(positions.astype(np.uint64), rows, columns, round_keys)
    while (outside := values >= n).any():
        values[outside] = _feistel(values[outside], rows, columns, round_keys)
    return values.astype(np.int64)


def random_words(count: int, key: Key, stream: int) -> np.ndarray:
    """count well-mixed uint64 words that depend on the key and the stream only."""
    state = np.zeros(1, dtype=np.uint64)
    for part in (*key, stream):
        state = _mixed(state + np.uint64(part & _WORD))
    return _mixed(state + np.arange(count, dtype=np.uint64))


def _feistel(values: np.ndarray, rows: int, columns: int, round_keys: np.ndarray) -> np.ndarray:
    row_count, column_count = np.uint64(rows), np.uint64(columns)
    row, column = values // column_count, values % column_count
    for row_key, column_key in round_keys.reshape(-1, 2):
        column = (column + _mixed(row ^ row_key) % column_count) % column_count
        row = (row + _mixed(column ^ column_key) % row_count) % row_count
    return row * column_count + column


def _mixed(words: np.ndarray) -> np.ndarray:
    """Hash each word so that every bit of it reaches every bit of the result."""
    words = words + _STEP
    words = (words ^ (words >> _S30)) * _FIRST
    words = (words ^ (words >> _S27)) * _SECOND
    return words ^ (words >> _S31)
