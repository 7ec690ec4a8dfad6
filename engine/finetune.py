"""deepspeed engine/finetune.py --config configs/finetune/diagnosis.yaml --set model.from=RUN --set data.path=DATA
    --set run.dir=TUNED [--set data.leads=[I,II,V2]]

`model.from`: a pre-training run, a folder of released weights, or none for fresh ones. The same file runs under
torchrun, srun and plain python.
"""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])  # a clone works from any folder; and engine/ hides no package

from engine.config.finetuning import FinetuneConfig
from engine.training.command import main
from engine.training.finetuning import Finetuning

if __name__ == "__main__":
    main(__doc__, FinetuneConfig, Finetuning)
