"""deepspeed engine/pretrain.py --config configs/pretrain/w2v_cmsc_rlm.yaml --set data.path=DATA --set run.dir=RUN

The same file runs under torchrun, srun and plain python.
"""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])  # a clone works from any folder; and engine/ hides no package

from engine.config.pretraining import PretrainConfig
from engine.training.command import main
from engine.training.pretraining import Pretraining

if __name__ == "__main__":
    main(__doc__, PretrainConfig, Pretraining)
