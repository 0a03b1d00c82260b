.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test missing npm test-quick test-rust test-core test-widths test-python test-page check sanitize bench bench-peers \
	bench-alerts bench-information bench-joint bench-scale bench-page screenshot dashboard protocol reproduce evidence fuzz torture torture-slice soak \
	nightly licences release-check sbom docs reference wheels workflows

PYTHON ?= python3
VENV := .venv/bin
# The Python tests run the binary that `cargo test` builds.
BINARY := $(CURDIR)/target/debug/conceptwatch
# Nothing that waits for a schedule or needs more than numpy.
QUICK_PYTHON := keeping process prompts protocol run tensors thinning

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## watch two models train, at http://127.0.0.1:7801 (ARGS="--keep-open" leaves it open)
	cargo run --release --locked -- demo $(ARGS)

# Whatever make can install is installed before the first test. What is missing is said first and, below the results, last.
STEPS := rust python page
test: missing .venv/all npm ## every test that a change needs, Rust, Python and the page: half an hour on two cores
	@set -e; number=0; for step in $(STEPS); do \
		number=$$((number + 1)); printf '\n== step %s of %s: make test-%s\n' $$number $(words $(STEPS)) $$step; \
		$(MAKE) --no-print-directory test-$$step; \
	done
	@sh tests/missing.sh

nightly: missing ## what takes too long for each change: each library alone, vector widths, the sanitiser, licences, torture
	@set -e; for step in test-core test-widths sanitize licences workflows torture-slice; do \
		printf '\n== make %s\n' $$step; $(MAKE) --no-print-directory $$step; \
	done
	@sh tests/missing.sh

missing:
	@sh tests/missing.sh

npm:
	@sh tests/npm.sh

test-quick: .venv/ready ## the tests of an inner loop: the core, the command line and the Python client
	cargo test --locked --lib --bins --test core
	cargo test --locked --test ports ingest::
	cargo test --locked --test commands score::
	CONCEPTWATCH_BINARY=$(BINARY) PYTHONPATH=python $(VENV)/python -m pytest -q $(QUICK_PYTHON:%=python/tests/test_%.py)

test-rust:
	cargo test --locked

test-core:
	cargo test --locked -p information --lib
	cargo test --locked -p leakage --lib

test-widths:
	sh crates/information/tests/widths/run.sh

# Three at a time, as they wait for sidecars and schedules a third of the time; a file's tests share what they set up.
test-python: .venv/all npm
	CONCEPTWATCH_BINARY=$(BINARY) PYTHONPATH=python $(VENV)/python -m pytest -n 3 --dist loadfile python/tests

# FONTS=/usr/share/fonts/truetype/noto lets the browsers have these fonts only.
test-page: npm
	FONTS=$(FONTS) sh tests/page/run.sh

check: .venv/ready ## formatting, lints and types
	cargo fmt --check
	cargo clippy --locked --all-targets -- -D warnings
	cd benches/peers && cargo update --quiet --workspace --locked
	$(VENV)/ruff check --config python/pyproject.toml python tests deploy
	$(VENV)/ruff format --config python/pyproject.toml --check python tests deploy
	cd python && ../$(VENV)/mypy
	sh tests/page/types.sh

reference: .venv/ready ## the generated pages of docs/, from the code
	UPDATE_DOCS=1 cargo test --locked --lib reference::
	UPDATE_DOCS=1 cargo test --locked --test scores --test core --test repository
	$(VENV)/python python/reference.py docs/python.md

docs: .cache/tools/bin/mdbook ## the documentation as a site, in target/book
	$< build docs

licences: .cache/tools/bin/cargo-deny ## licences and sources of the dependencies
	.cache/tools/bin/cargo-deny --locked check bans licenses sources

release-check: .cache/tools/bin/cargo-deny ## known vulnerabilities and moved images; needs a network
	.cache/tools/bin/cargo-deny --locked check advisories
	sh deploy/images.sh

sbom: .cache/tools/bin/cargo-cyclonedx ## the bill of materials of the program, in target/conceptwatch.cdx.json
	.cache/tools/bin/cargo-cyclonedx cyclonedx --format json --spec-version 1.5 --target x86_64-unknown-linux-gnu \
		--override-filename conceptwatch.cdx
	mv conceptwatch.cdx.json target/
	rm -f crates/*/conceptwatch.cdx.json

# For Linux; macOS builds its own with WHEELS=aarch64-apple-darwin.
WHEELS := x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu
wheels: .venv-wheels/ready ## wheels and the source package in target/wheels, installed and run without a compiler
	sh python/wheels/build.sh $(CURDIR)/.venv-wheels/bin/python $(WHEELS)
	sh python/wheels/check.sh $(CURDIR)/.venv-wheels/bin/python

workflows: .venv/ready ## the release workflow: its form, and known mistakes in it
	$(VENV)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(VENV)/zizmor --offline --quiet --strict-collection .github/workflows

# Unchecked reads of the estimators. The sanitiser is unstable, so the stable compiler has to be told to allow it; the
# dependencies are not optimised, because compiling them would take longer than the tests.
sanitize: ## the estimators' unit tests under the address sanitiser
	RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address CARGO_TARGET_DIR=target/sanitize \
		cargo test --locked --config 'profile.dev.package."*".opt-level=0' -p information --lib \
		--target x86_64-unknown-linux-gnu

bench: .venv/torch ## speed and memory: ingest, scores, the cost to training
	cargo bench --locked --bench figures --bench ticks --bench vectors --bench shapes --bench ingest --bench memory --bench score
	cargo build --release --locked
	PYTHONPATH=python $(VENV)/python python/benches/log_cost.py
	PYTHONPATH=python CONCEPTWATCH_BINARY=$(CURDIR)/target/release/conceptwatch $(VENV)/python python/benches/epoch_cost.py
	PYTHONPATH=python CONCEPTWATCH_BINARY=$(CURDIR)/target/release/conceptwatch $(VENV)/python python/benches/pass_cost.py

# With OpenBLAS and a Fortran library (libopenblas-dev, gfortran) the crate infomeasure is timed too.
bench-peers: .venv-peers/ready ## the estimators beside scikit-learn's and others (ARGS="--quick" for a rough look)
	set -e; cd benches/peers; \
	if cargo build --release --locked --quiet --features infomeasure-rs; then also=--infomeasure-rs; \
	else cargo build --release --locked --quiet; fi; \
	../../.venv-peers/bin/python peers.py target/release/peers $$also $(ARGS)

bench-information: .venv/ready ## mutual_information beside scikit-learn's: the table of docs/peers.md
	cargo build --release --locked
	PYTHONPATH=python CONCEPTWATCH_BINARY=$(CURDIR)/target/release/conceptwatch $(VENV)/python python/benches/mutual_information.py

bench-joint: .venv-peers/ready ## joint leakage on ten laws of known truth, beside gradient boosting
	cargo build --release --locked
	.venv-peers/bin/python python/benches/joint_leakage.py target/release/conceptwatch

# An hour; measurements are kept in target/scale. ARGS="--parts stream" for one part, "--again" to repeat all.
bench-scale: .venv/ready ## hubs with 10,000 runs, 1,000 streams, and outages: the figures of docs/scale.md
	cargo build --release --locked --bin conceptwatch --bench scale
	sh tests/npm.sh
	PYTHONPATH=python CONCEPTWATCH_BINARY=$(CURDIR)/target/release/conceptwatch $(VENV)/python python/benches/scale.py $(ARGS)

bench-page: ## the page of a sidecar with 100 runs of 1,000 points, in Chromium: the table of docs/benchmarks.md
	cargo build --release --locked --bin conceptwatch --example filled
	sh tests/npm.sh
	sh benches/page/run.sh target/release

bench-alerts: .venv-peers/ready ## the operating curve of the test for rises, beside other detectors
	cargo bench --locked -p leakage --bench alerts -- --series $(CURDIR)/target/alert-series
	.venv-peers/bin/python python/benches/alert_peers.py target/alert-series

screenshot: .venv/torch ## the page during a training run, as docs/page.png
	cargo build --release --locked
	PATH="$(CURDIR)/$(VENV):$$PATH" PYTHONPATH=python CONCEPTWATCH_BINARY=$(CURDIR)/target/release/conceptwatch \
		sh tests/page/take_picture.sh docs/page.png

dashboard: .venv/deploy ## the Grafana dashboard, from its program
	$(VENV)/python deploy/grafana/dashboard.py

reproduce: .venv/reproduce ## papers' experiments, through the sidecar; resumes where it was stopped
	cargo build --release --locked
	mkdir -p docs/reproduce
	PYTHONPATH=python $(VENV)/python python/reproduce/train.py target/reproduce/models
	PYTHONPATH=python CONCEPTWATCH_BINARY=$(CURDIR)/target/release/conceptwatch \
		$(VENV)/python python/reproduce/score.py target/reproduce/models target/reproduce/results.jsonl
	cp target/reproduce/results.jsonl docs/reproduce/results.jsonl
	PYTHONPATH=python CONCEPTWATCH_BINARY=$(CURDIR)/target/release/conceptwatch \
		$(VENV)/python python/reproduce/papers.py target/reproduce/models docs/reproduce/papers.json
	PYTHONPATH=python $(VENV)/python python/reproduce/report.py docs/reproduce/results.jsonl docs/reproduce/papers.json \
		target/reproduce/models docs/reproduce.md

# Hours; the program says how many are left.
evidence: .venv/evidence ## what the default alert rules stop, on models trained for it; resumes where it was stopped
	cargo build --release --locked --bin conceptwatch --example judge
	OMP_NUM_THREADS=1 CONCEPTWATCH_BINARY=$(CURDIR)/target/release/conceptwatch \
		$(VENV)/python python/evidence/train.py docs/evidence/runs.jsonl
	PYTHONPATH=python OMP_NUM_THREADS=1 CONCEPTWATCH_BINARY=$(CURDIR)/target/release/conceptwatch \
		$(VENV)/python python/evidence/kinds.py docs/evidence/kinds.jsonl
	$(VENV)/python python/evidence/report.py target/release/examples/judge docs/evidence/runs.jsonl docs/evidence.md

# Three hours, in parts whose results are kept in target/torture; TORTURE_SEED chooses other moments.
TORTURE := PYTHONPATH=python CONCEPTWATCH_BINARY=$(CURDIR)/target/release/conceptwatch $(VENV)/python -m torture
torture: .venv/ready ## the proof of docs/reliability.md: kills, power cuts, floods; resumes where it was stopped
	cargo build --release --locked --bin conceptwatch
	$(TORTURE) target/torture $(ARGS)
	$(TORTURE).report target/torture docs/reliability.md

torture-slice: .venv/ready ## some minutes of it
	cargo build --release --locked --bin conceptwatch
	$(TORTURE) target/torture --slice $(ARGS)

soak: .venv/ready ## an hour of jobs that come, go and die
	cargo build --release --locked --bin conceptwatch
	$(TORTURE) target/torture --rows soak
	$(TORTURE).report target/torture docs/reliability.md

# Run it before the server uses what is new in the protocol, as it is compiled first.
protocol: ## the message code in Rust and Python, from proto/
	UPDATE_DOCS=1 cargo test --locked --test protocol
	PYTHON=$(PYTHON) sh python/generate.sh

# Inputs for each target, a fifth of them where each is scored by the whole catalogue; a finding ends it and stands in
# fuzz/artifacts/. Coverage needs no nightly compiler.
RUNS := 1000000
FUZZED := chunk tensors names npz history recording scores
FUZZ := CARGO_TARGET_DIR=target/fuzz .cache/tools/bin/cargo-fuzz

fuzz: .cache/tools/bin/cargo-fuzz ## RUNS inputs of each kind that comes from outside, and samples to score, guided by coverage
	$(FUZZ) build --sanitizer none
	set -e; for target in $(FUZZED); do \
		mkdir -p target/fuzz/corpus/$$target; runs=$(RUNS); \
		if [ $$target = scores ]; then runs=$$((runs / 5)); fi; \
		$(FUZZ) run --sanitizer none $$target target/fuzz/corpus/$$target fuzz/corpus/$$target -- \
			-runs=$$runs -max_len=32768 -rss_limit_mb=512 -timeout=10 -print_final_stats=1; \
	done

# Without optimisation: they run for seconds, and compile three times as fast.
TOOL := CARGO_PROFILE_DEV_DEBUG=0 CARGO_TARGET_DIR=.cache/tools/target cargo install --quiet --locked --debug --root .cache/tools

.cache/tools/bin/cargo-deny:
	$(TOOL) cargo-deny --version 0.20.2
	rm -rf .cache/tools/target

.cache/tools/bin/mdbook:
	$(TOOL) mdbook --version 0.5.4
	rm -rf .cache/tools/target

.cache/tools/bin/cargo-fuzz:
	$(TOOL) cargo-fuzz --version 0.13.1
	rm -rf .cache/tools/target

.cache/tools/bin/cargo-cyclonedx:
	$(TOOL) cargo-cyclonedx --version 0.5.9
	rm -rf .cache/tools/target

# PyTorch, the frameworks of the callbacks, and what deploy/ is checked with: several GB where pip brings CUDA along.
.venv/all: .venv/integrations .venv/deploy
	touch $@

.venv/torch: .venv/ready
	$(VENV)/pip install --disable-pip-version-check --progress-bar on torch
	touch $@

.venv/integrations: .venv/torch python/requirements-integrations.txt
	$(VENV)/pip install --disable-pip-version-check --progress-bar on -r python/requirements-integrations.txt
	touch $@

.venv/reproduce: .venv/torch python/reproduce/requirements.txt
	$(VENV)/pip install --quiet --disable-pip-version-check -r python/reproduce/requirements.txt
	touch $@

.venv/evidence: .venv/torch python/evidence/requirements.txt
	$(VENV)/pip install --quiet --disable-pip-version-check -r python/evidence/requirements.txt
	touch $@

.venv/deploy: .venv/ready deploy/requirements.txt
	$(VENV)/pip install --quiet --disable-pip-version-check -r deploy/requirements.txt
	touch $@

# The peers that estimators and alerts are compared with.
.venv-peers/ready: benches/peers/requirements.txt
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/pip install --quiet --disable-pip-version-check -r benches/peers/requirements.txt
	touch $@

.venv-wheels/ready: python/wheels/requirements.txt
	$(PYTHON) -m venv .venv-wheels
	.venv-wheels/bin/pip install --quiet --disable-pip-version-check -r python/wheels/requirements.txt
	touch $@

.venv/ready: python/requirements.txt
	$(PYTHON) -m venv .venv
	$(VENV)/pip install --quiet --disable-pip-version-check -r python/requirements.txt
	touch $@
