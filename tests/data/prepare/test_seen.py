"""The hashes of what was read: the first place stays the first, also after a stop at an odd moment."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from nanodyno.data.prepare.seen import SeenDocuments
from nanodyno.errors import RunFailed


def test_the_first_place_stays_the_first_when_asked_again(tmp_path: Path) -> None:
    seen = SeenDocuments(tmp_path / "seen.sqlite")
    assert [seen.is_first(b"a", 0, 5), seen.is_first(b"a", 1, 0), seen.is_first(b"a", 0, 5)] == [
        True,
        False,
        True,
    ]
    seen.close()
    again = SeenDocuments(tmp_path / "seen.sqlite")
    assert [again.is_first(b"a", 1, 0), again.is_first(b"a", 0, 5)] == [False, True]
    again.close()


def test_ctrl_c_in_the_middle_of_a_commit_lets_it_be_closed(tmp_path: Path) -> None:
    class Interrupted(sqlite3.Connection):
        def execute(self, *arguments: Any) -> Any:
            if arguments[0] == "BEGIN" and stops:
                raise KeyboardInterrupt
            return super().execute(*arguments)

    stops: list[bool] = []
    with pytest.MonkeyPatch.context() as patch:
        connect = sqlite3.connect
        patch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, factory=Interrupted, **k))
        seen = SeenDocuments(tmp_path / "seen.sqlite")
    seen.is_first(b"a", 0, 0)
    stops.append(True)
    with pytest.raises(KeyboardInterrupt):
        seen.commit()
    seen.close()
    again = SeenDocuments(tmp_path / "seen.sqlite")
    assert not again.is_first(b"a", 0, 1)
    again.close()


def test_a_file_that_is_no_database_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "seen.sqlite").write_bytes(b"no database at all" * 100)
    with pytest.raises(RunFailed, match="cannot be used") as caught:
        SeenDocuments(tmp_path / "seen.sqlite")
    assert "delete it" in (caught.value.hint or "")
