"""The script for a card with a made-up python: what it leaves, and how much of it there is."""

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = """#!/bin/sh
[ "$3" = attribute ] || { echo "read $*"; exit 0; }
while [ "$1" != --html ]; do shift; done
echo page >"$2"
mkdir -p "$XDG_CACHE_HOME/nanodyno/attribute/pair"
echo lines >"$XDG_CACHE_HOME/nanodyno/attribute/pair/${2##*/}.jsonl"
echo document
"""


@pytest.mark.skipif(shutil.which("timeout") is None, reason="needs GNU's timeout")
def test_each_part_leaves_a_text_and_an_archive_of_all_it_made(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(PYTHON)
    python.chmod(0o755)
    out = tmp_path / "out"
    places = {"PYTHON": str(python), "OUT": str(out), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = ["sh", str(ROOT / "benchmarks" / "attribute_card.sh"), "same", "limit"]
    subprocess.run(command, cwd=tmp_path, env=os.environ | places, check=True, stdout=subprocess.DEVNULL)
    assert sorted(each.name for each in out.iterdir()) == ["limit.tgz", "limit.txt", "same.tgz", "same.txt"]
    with tarfile.open(out / "limit.tgz") as archive:
        left = {Path(name).name: archive.extractfile(name) for name in archive.getnames() if "." in name[2:]}
        kinds = ("html", "json", "jsonl", "log")
        assert set(left) == {f"{name}.{kind}" for name in ("limit", "by-rows", "fitting") for kind in kinds}
        found = {name: file.read().decode().strip() for name, file in left.items() if file is not None}
    assert (found["fitting.html"], found["fitting.json"], found["fitting.jsonl"]) == (
        "page",
        "document",
        "lines",
    )
    reported = (out / "same.txt").read_text()
    assert "same: exit 0" in reported
    assert "read benchmarks/attribute_pages.py" in reported
    assert "--names gpt2-384 gpt2-384,kernels=fused,compile=False" in reported
