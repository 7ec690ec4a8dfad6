import os

import torch

# Workers side by side that each take every core wait for one another: ten times slower, not twice as fast.
if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)
