.DEFAULT_GOAL := help
.PHONY: help demo test check sanitize bench bench-peers bench-alerts screenshot dashboard protocol reproduce

PYTHON ?= python3
VENV := .venv/bin
# The Python tests run the binary that `cargo test` has just built.
BINARY := $(CURDIR)/target/debug/conceptwatch

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## watch two models train, at http://127.0.0.1:7801 (ARGS="--keep-open" leaves it open)
	cargo run --release --locked --quiet -- demo $(ARGS)

test: .venv/ready ## every test, Rust, Python and the page
	cargo test --locked
	cargo test --locked --lib --no-default-features
	sh tests/widths/run.sh
	CONCEPTWATCH_BINARY=$(BINARY) PYTHONPATH=python $(VENV)/python -m pytest python/tests
	CONCEPTWATCH_BINARY=$(BINARY) sh tests/page/run.sh

check: .venv/ready ## formatting, lints and types
	cargo fmt --check
	cargo clippy --locked --all-targets -- -D warnings
	cargo clippy --locked --lib --tests --no-default-features -- -D warnings
	cd benches/peers && cargo update --quiet --workspace --locked
	$(VENV)/ruff check --config python/pyproject.toml python tests deploy
	$(VENV)/ruff format --config python/pyproject.toml --check python tests deploy
	cd python && ../$(VENV)/mypy

# Unchecked reads of the estimators. The sanitiser is unstable, so the stable compiler has to be told to allow it; the
# dependencies are not optimised, because compiling them would take longer than the tests.
sanitize: ## the estimators' unit tests under the address sanitiser
	RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address CARGO_TARGET_DIR=target/sanitize \
		cargo test --locked --config 'profile.dev.package."*".opt-level=0' --lib --no-default-features \
		--target x86_64-unknown-linux-gnu estimate::

bench: .venv/torch ## speed and memory: ingest, scores, the cost to training
	cargo bench --locked --bench figures --bench ticks --bench vectors --bench shapes --bench ingest --bench memory --bench score
	cargo build --release --locked
	PYTHONPATH=python $(VENV)/python python/benches/log_cost.py
	PYTHONPATH=python CONCEPTWATCH_BINARY=$(CURDIR)/target/release/conceptwatch $(VENV)/python python/benches/epoch_cost.py
	PYTHONPATH=python CONCEPTWATCH_BINARY=$(CURDIR)/target/release/conceptwatch $(VENV)/python python/benches/pass_cost.py

# The crate infomeasure is timed too where OpenBLAS and a Fortran library are installed (libopenblas-dev, gfortran).
bench-peers: .venv-peers/ready ## the estimators beside scikit-learn and others (ARGS="--quick" for a rough look)
	set -e; cd benches/peers; \
	if cargo build --release --locked --quiet --features infomeasure-rs; then also=--infomeasure-rs; \
	else cargo build --release --locked --quiet; fi; \
	../../.venv-peers/bin/python peers.py target/release/peers $$also $(ARGS)

bench-alerts: .venv-peers/ready ## the operating curve of the test for rises, beside other detectors
	cargo bench --locked --no-default-features --bench alerts -- --series target/alert-series
	.venv-peers/bin/python python/benches/alert_peers.py target/alert-series

screenshot: .venv/torch ## the page during a training run, as docs/page.png
	cargo build --release --locked
	PATH="$(CURDIR)/$(VENV):$$PATH" PYTHONPATH=python CONCEPTWATCH_BINARY=$(CURDIR)/target/release/conceptwatch \
		sh tests/page/take_picture.sh docs/page.png

dashboard: .venv/deploy ## the Grafana dashboard, from its program
	$(VENV)/python deploy/grafana/dashboard.py

reproduce: .venv/reproduce ## a paper's experiments on TabularToy, through the sidecar; goes on where it was stopped
	cargo build --release --locked
	mkdir -p docs/reproduce
	PYTHONPATH=python CONCEPTWATCH_BINARY=$(CURDIR)/target/release/conceptwatch \
		$(VENV)/python python/reproduce/train.py docs/reproduce/results.jsonl
	$(VENV)/python python/reproduce/report.py docs/reproduce/results.jsonl docs/reproduce.md

protocol: ## the Python message code, from proto/
	PYTHON=$(PYTHON) sh python/generate.sh

# Large, so only what needs it asks for it; tests that use it say when it is missing.
.venv/torch: .venv/ready
	$(VENV)/pip install --quiet --disable-pip-version-check torch
	touch $@

# The training frameworks of the callbacks and the libraries of the adapters; the same holds for their tests.
.venv/integrations: .venv/torch python/requirements-integrations.txt
	$(VENV)/pip install --quiet --disable-pip-version-check -r python/requirements-integrations.txt
	touch $@

.venv/reproduce: .venv/torch python/reproduce/requirements.txt
	$(VENV)/pip install --quiet --disable-pip-version-check -r python/reproduce/requirements.txt
	touch $@

# The same for deploy/: the dashboard's program, schemas and linters.
.venv/deploy: .venv/ready deploy/requirements.txt
	$(VENV)/pip install --quiet --disable-pip-version-check -r deploy/requirements.txt
	touch $@

# What estimators and alerts are compared with: nothing else needs them.
.venv-peers/ready: benches/peers/requirements.txt
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/pip install --quiet --disable-pip-version-check -r benches/peers/requirements.txt
	touch $@

.venv/ready: python/requirements.txt
	$(PYTHON) -m venv .venv
	$(VENV)/pip install --quiet --disable-pip-version-check -r python/requirements.txt
	touch $@
