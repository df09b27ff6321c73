# The front door. `make help` lists what there is.

SHELL := /bin/bash
.DEFAULT_GOAL := help
export PATH := $(CURDIR)/.venv/bin:$(PATH):$(HOME)/.cargo/bin
export PYO3_PYTHON := $(CURDIR)/.venv/bin/python

PYTHON := .venv/bin/python
# Arguments of the demo and of the benchmarks, for instance ARGS="--samples 400".
ARGS ?=
# How long each fuzz target runs.
FUZZ_SECONDS ?= 60
# One row of the benchmarks, by name.
ONLY ?=

PYTEST := $(PYTHON) -m pytest -c python/pyproject.toml --rootdir .
PYTHON_TESTS := $(wildcard python/tests demo/tests bench/tests scripts/tests)
# Nextest runs test binaries side by side; without it cargo's own runner does the same work slower.
# It does not run the examples of the documentation, which are a command of their own then.
NEXTEST := $(shell command -v cargo-nextest)
RUST_TESTS := $(if $(NEXTEST),cargo nextest run --no-fail-fast --status-level slow,cargo test --lib --bins --tests --no-fail-fast)

.PHONY: help setup build demo tiers-demo fabric-demo test test-rust test-python lint lint-rust lint-python lint-tree \
        format bench fuzz soak doc clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install what is missing: system packages, .venv, Python packages
	@scripts/setup

build: setup ## Build the forebay command and the Python package, and install both in .venv
	@scripts/build-wheel

demo: build ## Train on an emulated slow tier, direct and through Forebay; report in out/demo
	@$(PYTHON) -m demo $(ARGS)

tiers-demo: build ## Sweep emulated tiers, analyse, and check a plan; report in out/tiers-demo
	@$(PYTHON) -m demo.tiers $(ARGS)

fabric-demo: build ## Storage and collectives on a miniature fabric (root); report in out/fabric
	@$(PYTHON) -m demo.fabric $(ARGS)

test: test-rust test-python ## Run every test

test-rust: setup ## Run the Rust tests
	@$(RUST_TESTS)
	@cargo test --quiet --doc

test-python: build ## Run the Python tests
	@$(PYTEST) --quiet -m "not soak" $(PYTHON_TESTS)

lint: lint-rust lint-python lint-tree ## Run every check that is not a test

lint-rust: setup
	@cargo fmt --all --check
	@cargo clippy --quiet --workspace --all-targets -- -D warnings
	@RUSTDOCFLAGS="-D warnings" cargo doc --quiet --workspace --no-deps

lint-python: build
	@ruff format --config python/pyproject.toml --check --quiet .
	@ruff check --config python/pyproject.toml --quiet .
	@cd python && mypy --no-error-summary -p forebay
	@cd python && stubtest --concise forebay._native
	@cd scripts && mypy --config-file ../python/pyproject.toml --no-error-summary .

lint-tree: setup
	@$(PYTHON) scripts/check_dependencies.py
	@$(PYTHON) scripts/check_sources.py
	@$(PYTHON) scripts/check_claims.py
	@git ls-files -z --cached --others --exclude-standard | xargs -0 codespell --toml python/pyproject.toml

format: setup ## Put all code in the house format
	@cargo fmt --all
	@ruff check --config python/pyproject.toml --quiet --fix-only .
	@ruff format --config python/pyproject.toml --quiet .

bench: build ## Run the comparisons, all or ONLY=name; ratios in out/bench/summary.json
	@$(PYTHON) -m bench $(if $(ONLY),--only $(ONLY)) $(ARGS)

fuzz: setup ## Feed each decoder random bytes for FUZZ_SECONDS (60)
	@scripts/fuzz $(FUZZ_SECONDS)

soak: build fuzz ## Run the long random tests
	@$(RUST_TESTS) --release $(if $(NEXTEST),--run-ignored only --no-tests pass,-- --ignored)
	@$(PYTEST) -m soak $(PYTHON_TESTS); code=$$?; [ $$code = 0 ] || [ $$code = 5 ]

doc: setup ## Build the reference of the Rust crates in target/doc
	@cargo doc --quiet --workspace --no-deps

clean: ## Remove what was built and measured; keep .venv
	@cargo clean --quiet
	@rm -rf out python/dist python/forebay.data .venv/forebay-wheel.sha256
