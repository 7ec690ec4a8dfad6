# make setup: .venv with every package at its pinned version. make test: that, then lint, types and tests.
PYTHON ?= python3.11
CUDA ?= cuda13
BIN := .venv/bin
READY := .venv/ready-$(CUDA)

.PHONY: setup test test-slow lint types

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt pip setuptools wheel
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --build-constraint constraints.txt \
		--editable '.[train,$(CUDA),formats,cluster,s3,peers,dev]'
	touch $@

test: lint types
	$(BIN)/python -m pytest -n 2

test-slow: setup
	$(BIN)/python -m pytest -m slow

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy
