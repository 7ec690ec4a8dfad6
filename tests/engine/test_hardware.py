import subprocess
import sys

from benchmarks.processes import ROOT

_CODE = """
import resource
import torch
from engine.hardware import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        torch.ones(16 << 20)  # 64 MB, given back at once
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

given_back = faults()
keep_freed_memory()
print(given_back, [faults() for _ in range(8)][-1])  # once the heap has grown to what is needed
"""


def test_freed_memory_is_not_paid_for_again() -> None:
    """Page faults of five large tensors, one after the other."""
    done = subprocess.run([sys.executable, "-c", _CODE], cwd=ROOT, capture_output=True, text=True, check=True)
    given_back, kept = map(int, done.stdout.split())
    assert kept * 10 < given_back
