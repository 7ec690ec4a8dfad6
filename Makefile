# make demo: from nothing to a small pre-trained encoder. make setup: .venv with every package at its pinned version.
# make test: that, then lint, types and tests. make rehearsal: the paper's scale on artificial recordings; for a GPU.
PYTHON ?= python3.11
CUDA ?= cuda13
BIN := .venv/bin
READY := .venv/ready-$(CUDA)
DEMO ?= demo
REHEARSAL ?= rehearsal

.PHONY: setup demo rehearsal test test-slow lint types

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt pip setuptools wheel
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --build-constraint constraints.txt \
		--editable '.[train,$(CUDA),formats,cluster,s3,hub,onnx,peers,dev]'
	touch $@

demo: setup
	test -d $(DEMO)/raw || $(BIN)/python -m data_tools.synthesize --out $(DEMO)/raw --patients 3000
	$(BIN)/python -m data_tools.shard $(DEMO)/raw/challenge-2021 --out $(DEMO)/set \
		--ptbxl-metadata $(DEMO)/raw/ptb-xl/ptbxl_database.csv
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/deepspeed engine/pretrain.py --config configs/demo.yaml \
		--set data.path=$(DEMO)/set --set run.dir=$(DEMO)/run --resume auto
	$(BIN)/python -m engine.curves $(DEMO)/run

rehearsal: setup
	test -d $(REHEARSAL)/raw || $(BIN)/python -m data_tools.synthesize --out $(REHEARSAL)/raw --patients 84711
	$(BIN)/python -m data_tools.shard $(REHEARSAL)/raw/challenge-2021 --out $(REHEARSAL)/set \
		--ptbxl-metadata $(REHEARSAL)/raw/ptb-xl/ptbxl_database.csv
	$(BIN)/python -m benchmarks paper --table 1 --rows random_init w2v_cmsc_rlm --leads 12 1 --seeds 1 \
		--size rehearsal --data $(REHEARSAL)/set --out $(REHEARSAL)/out

test: lint types
	$(BIN)/python -m pytest -n 2

test-slow: setup
	$(BIN)/python -m pytest -m slow

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy
