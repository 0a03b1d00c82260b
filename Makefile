.DEFAULT_GOAL := help
.PHONY: help check

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

check: ## formatting, lints and types
	cargo fmt --check
	cargo clippy --all-targets -- -D warnings
	cargo clippy --lib --tests --no-default-features -- -D warnings
