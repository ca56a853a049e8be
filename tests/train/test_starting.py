"""How quickly the way by hand starts: a test of what it imports, not of a time."""

import subprocess
import sys

CODE = """
import sys
import time

from nanodyno.config import build_config
from nanodyno.probe.repetition import ProbeJob
from nanodyno.probe.workload import Workload

settings = {
    "n_layer": 1, "n_embd": 64, "block_size": 16, "batch_size": 1, "tokenizer": "bytes", "dataset": "python",
    "device": "cpu", "kernels": "fused",
}
Workload(ProbeJob(config=build_config(settings)), time.time(), lambda stage: None).iteration()
print("torch" in sys.modules, "torch._dynamo" in sys.modules)
"""


def test_training_by_the_hand_written_kernels_imports_no_compiler() -> None:
    """torch's takes as long to import as torch itself, and torch's own optimisers bring it along."""
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]
