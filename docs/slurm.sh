#!/usr/bin/env bash
# sbatch docs/slurm.sh DATA RUN: pre-training on whole nodes that goes on until it is finished.
#SBATCH --job-name=leadwise
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=12
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=USR1@120   # to every rank, two minutes before the time is up: the run saves and stops
set -uo pipefail
DATA=$1 RUN=$2

MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_ADDR MASTER_PORT=29500
srun --kill-on-bad-exit=1 python engine/pretrain.py --config configs/pretrain/w2v_cmsc_rlm.yaml \
	--set data.path="$DATA" --set run.dir="$RUN" --resume auto

# Exit codes of launchers say little; the run itself says how it ended. "running": it was killed.
status=$(python -c 'import json, sys; print(json.load(open(sys.argv[1]))["status"])' "$RUN/status.json" || echo failed)
case $status in
	finished) exit 0 ;;
	failed) exit 1 ;;
	*) scontrol requeue "$SLURM_JOB_ID" ;;
esac
