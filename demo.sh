#!/usr/bin/env bash
# ./demo.sh [FOLDER]: from nothing to scores and a page, on artificial recordings; what is done already is not done again.
# Ctrl-C is safe: the same command goes on. `make demo` calls it in the environment that `make setup` makes.
set -euo pipefail
cd "$(dirname "$0")"
demo=${1:-demo}

say() { printf '\n== %s\n' "$*"; }

# train PROGRAM CONFIG RUN DATA [--set a.b=c ...]: to its end, or on to it from where it was stopped.
train() {
	local program=$1 config=$2 run=$3 data=$4
	shift 4
	if [ -f "$run/model/model.safetensors" ]; then echo "$run: finished already"; return; fi
	deepspeed --quiet --num_gpus "$devices" --master_port "$port" "engine/$program.py" \
		--config "configs/demo/$config.yaml" --set data.path="$data" --set run.dir="$run" --resume auto "$@" && return
	[ ! -f "$run/lock" ] || flock "$run/lock" true # Ctrl-C ends the launcher at once; the run is still saving
	echo "$run: stopped; the same command goes on from here" >&2
	exit 1
}

trap 'stopped=by-hand' INT # ends what runs, and then this
export DS_ACCELERATOR
# All GPUs that share a batch of 16 evenly, or the processor; and a port that nobody else's training has.
devices=$(python -c 'import torch; print(2 ** (min(max(torch.cuda.device_count(), 1), 16).bit_length() - 1))')
DS_ACCELERATOR=$(python -c 'import torch; print("cuda" if torch.cuda.is_available() else "cpu")')
port=$(python -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])')

say "1 of 6: an artificial archive of 12-lead recordings"
if [ -d "$demo/raw" ]; then echo "$demo/raw: there already"; else
	python -m data_tools.synthesize --out "$demo/raw" --patients 3000
fi

say "2 of 6: from recordings to shards; those of PTB-XL, whose patients are known, also on their own"
shard() {
	if [ -d "$1" ]; then echo "$1: there already"; return; fi
	python -m data_tools.shard "$demo/raw/challenge-2021" --out "$@" \
		--ptbxl-metadata "$demo/raw/ptb-xl/ptbxl_database.csv"
}
shard "$demo/set"
shard "$demo/people" --cohorts ptb-xl --views identification

say "3 of 6: pre-training without labels (W2V+CMSC+RLM)"
train pretrain pretrain "$demo/run" "$demo/set"

say "4 of 6: fine-tuning for diagnosis"
train finetune diagnosis "$demo/diagnosis" "$demo/set" --set model.from="$demo/run"

say "5 of 6: fine-tuning for identification"
train finetune identification "$demo/identification" "$demo/people" --set model.from="$demo/run"

say "6 of 6: the scores, on recordings and patients that no training has seen"
score() {
	python -m engine.evaluate --model "$demo/$1" --data "$2" --task "$1" --json "$demo/$1/evaluation.json"
}
score diagnosis "$demo/set"
score identification "$demo/people"
python -m engine.report "$demo/run" --compare "$demo/diagnosis" "$demo/identification" --out "$demo/report.html"
say "done: $demo/report.html is the page, $demo/run/model the encoder"
