# make demo and make test set up everything they need in .venv; nothing else is touched.

PYTHON ?= $(firstword $(foreach name,python3.11 python3.12 python3.13 python3.14 python3,$(shell command -v $(name))))
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help demo docs man test test-full ci lint bench fuzz htp-sweep faults lock audit clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST)

$(VENV)/.made:
	@scripts/make-venv "$(PYTHON)" $(VENV)
	@touch $@

# make LOCKED=1 ... installs the files of dev.lock and no others.
$(VENV)/.run: $(VENV)/.made pyproject.toml
	@test -z "$(LOCKED)" || $(BIN)/python -m pip install --quiet --require-hashes --requirement dev.lock
	$(BIN)/python -m pip install --quiet --editable .
	@scripts/install-htp $(BIN)/python
	@touch $@

$(VENV)/.dev: $(VENV)/.run
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

demo: $(VENV)/.run ## build, convert, quantize, prepare, inspect and run a small network
	$(BIN)/python scripts/demo.py

lint: $(VENV)/.dev ## style, types, import rules and budgets of size
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m scripts.budget

test: lint ## lint, then all tests that need nothing from outside
	$(BIN)/python -m pytest -rs -n auto --dist worksteal -m 'not (corpus or vendor or frameworks or cross or slow)'

# Without their dependencies, which are installed but for torchvision: that would bring another build of torch.
$(VENV)/.full: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --editable '.[test-frameworks]'
	$(BIN)/python -m pip install --quiet --no-deps timm==1.0.31 torchao==0.18.0
	@touch $@

test-full: $(VENV)/.full ## fuzzing, and the tests that need models, frameworks or compilers (CONTRIBUTING.md)
	scripts/test-full $(BIN)/python

$(VENV)/.docs: $(VENV)/.run
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@

docs: $(VENV)/.docs ## build the documentation site in .site/html
	$(BIN)/python -m scripts.docs

man: $(VENV)/.docs ## write man pages of the tools to .site/man
	$(BIN)/python -m scripts.docs --man

ci: test ## test, docs and test-full
	@$(MAKE) --no-print-directory docs
	@$(MAKE) --no-print-directory test-full

MODELS ?= $(wildcard .demo/*.onnx)
bench: $(VENV)/.dev ## time the converter: make bench MODELS="a.onnx b.onnx"
	@test -n "$(strip $(MODELS))" || { echo 'make bench: name the models: MODELS="a.onnx b.onnx"' >&2; exit 2; }
	$(BIN)/python bench/convert.py $(MODELS)

SECONDS := 60
TARGETS := all
fuzz: $(VENV)/.dev ## damaged input, and networks with an oracle: make fuzz SECONDS=60 TARGETS=readers,differential
	$(BIN)/python -m fuzz.run $(TARGETS) --seconds $(SECONDS) --work .fuzz

MINUTES := 60
htp-sweep: $(VENV)/.dev ## compare HTP's emulation with the host: make htp-sweep MINUTES=60
	$(BIN)/python -m fuzz.sweep.run --seconds $$((60 * $(MINUTES))) --work .fuzz

TOOLS :=
faults: $(VENV)/.dev ## let every change of the disk fail in every tool: make faults TOOLS=opt,convert
	$(BIN)/python -m fuzz.faults.run $(TOOLS)

lock: $(VENV)/.made ## write dev.lock: exact versions of all dependencies, with hashes
	$(BIN)/python scripts/lock.py

audit: $(VENV)/.made ## look up advisories about the versions in dev.lock (needs network)
	$(BIN)/python -m pip install --quiet pip-audit
	$(BIN)/python -m pip_audit --requirement dev.lock --disable-pip --require-hashes

clean: ## remove what the targets above made
	rm -rf $(VENV) .demo .site .fuzz .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
