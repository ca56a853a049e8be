"""How much of the house a newcomer meets: what commands enter, and where settings are listed by hand.

python tools/footprint.py literals          # literals in src that name two or more settings
python tools/footprint.py enter -- COMMAND  # files and functions that a command enters, children too
"""

import ast
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "nanodyno"
TRACER = """
import atexit, os, sys, threading
entered = set()
def see(frame, event, _):
    if event == "call" and "nanodyno" in frame.f_code.co_filename:
        code = frame.f_code
        known = code.co_filename, code.co_qualname
        is_function = code.co_flags & 0x1 and not code.co_name.startswith("<")  # no class body, no lambda
        if is_function and known not in entered:
            entered.add(known)
            os.write(out, "{}\\t{}\\n".format(*known).encode())
out = os.open(os.path.join(os.environ["FOOTPRINT"], str(os.getpid())), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
threading.setprofile(see)
sys.setprofile(see)
"""


def main() -> None:
    if sys.argv[1:2] == ["literals"]:
        found = list(literals())
        for path, line, keys in found:
            print(f"{path.relative_to(SOURCE)}:{line}: {', '.join(keys)}")
        print(f"{len(found)} literals in {len({path for path, _, _ in found})} files")
    elif sys.argv[1:3] == ["enter", "--"]:
        enter(sys.argv[3:])
    else:
        sys.exit(__doc__)


def literals() -> Iterator[tuple[Path, int, list[str]]]:
    """Lists, tuples, sets and dicts with two or more settings among their own elements or keys."""
    from nanodyno.config import RunConfig

    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Dict | ast.List | ast.Tuple | ast.Set):
                continue
            elements = node.keys if isinstance(node, ast.Dict) else node.elts
            words = [each.value for each in elements if isinstance(each, ast.Constant)]
            keys = [word for word in words if isinstance(word, str) and word in RunConfig.model_fields]
            if len(set(keys)) >= 2:
                yield path, node.lineno, keys


def enter(command: list[str]) -> None:
    """Runs it under a profiler that only notes names."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "sitecustomize.py").write_text(TRACER, encoding="utf-8")
        notes = Path(folder, "notes")
        notes.mkdir()
        environment = {**os.environ, "PYTHONPATH": folder, "FOOTPRINT": str(notes)}
        subprocess.run(command, env=environment, check=False, stdout=subprocess.DEVNULL)
        lines = {line for each in notes.iterdir() for line in each.read_text(encoding="utf-8").splitlines()}
    inside = [line.split("\t") for line in lines if str(SOURCE) in line]
    print(f"{len({file for file, _ in inside})} files, {len(inside)} functions: {' '.join(command)}")


if __name__ == "__main__":
    main()
