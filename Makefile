# make demo: from nothing to scores and a page of them. make setup: .venv with every package at its pinned version.
# make test: that, then lint, types and tests. make wheel: builds it, installs it alone and tries it.
# make rehearsal: the paper's scale on artificial recordings; for a GPU.
PYTHON ?= python3.11
CUDA ?= cuda13
BIN := .venv/bin
READY := .venv/ready-$(CUDA)
DEMO ?= demo
REHEARSAL ?= rehearsal

.PHONY: setup demo rehearsal test test-slow lint types wheel

setup: $(READY)
	@echo "ready; in each new shell: source .venv/bin/activate"

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt pip setuptools wheel
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --build-constraint constraints.txt \
		--editable '.[train,$(CUDA),formats,cluster,s3,hub,onnx,peers,dev]'
	touch $@

demo: setup
	PATH="$(CURDIR)/$(BIN):$$PATH" ./demo.sh $(DEMO)

rehearsal: setup
	test -d $(REHEARSAL)/raw || $(BIN)/python -m data_tools.synthesize --out $(REHEARSAL)/raw --patients 84711
	test -d $(REHEARSAL)/set || $(BIN)/python -m data_tools.shard $(REHEARSAL)/raw/challenge-2021 --out $(REHEARSAL)/set \
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

# The wheel in a new environment with the core dependencies alone, used from another folder.
wheel: setup
	rm -rf dist build .venv/clean
	$(BIN)/python -c "from setuptools import build_meta as build; build.build_wheel('dist'); build.build_sdist('dist')"
	$(BIN)/python -m venv .venv/clean
	.venv/clean/bin/python -m pip install --quiet --constraint constraints.txt dist/leadwise-*.whl
	cd .venv/clean && bin/python -I "$(CURDIR)/.ci/clean.py" "$(CURDIR)"
