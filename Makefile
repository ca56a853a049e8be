# `make demo` and `make test` do all their own set-up; the second time they start at once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
READY := $(VENV)/.ready
READY_DEV := $(VENV)/.ready-dev
# Texts that tools/plain_words.py reads.
PLAIN := README.md ARCHITECTURE.md src src/nanodyno/messages/en.po \
	$(wildcard docs/*.md docs/*/README.md)

.PHONY: demo test nightly check docs bench messages pages clean

demo: $(READY)
	$(BIN)/nanodyno demo

test: $(READY_DEV)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

nightly: $(READY_DEV)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m nightly

check: $(READY_DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python tools/plain_words.py $(PLAIN)

docs: $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	$(BIN)/mkdocs build --strict

bench: $(READY)
	$(BIN)/python benchmarks/help_time.py
	$(BIN)/python benchmarks/loop_overhead.py

messages: $(READY)
	$(BIN)/python tools/messages.py

pages: $(READY_DEV)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q tests/report/written_pages.py

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "nanodyno needs Python 3.11 or later; choose one with: make PYTHON=python3.12 ..."; exit 2; }
	@echo "setting up $(VENV): the first time this downloads torch and takes some minutes"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --constraint constraints.txt --editable .
	touch $(READY)

$(READY_DEV): $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(READY_DEV)

clean:
	rm -rf $(VENV) .compile-cache build src/*.egg-info
