# What you need: cargo, a C compiler, and curl (the tests run the README). What is missing is installed or named.
.PHONY: all run test lint bench schemas need

CARGO ?= cargo
# nextest where it is there, cargo's own runner elsewhere.
RUN_TESTS := $(if $(shell command -v cargo-nextest),nextest run --no-fail-fast,test)

all: run

## Start the server.
run: need
	$(CARGO) run --release

## All tests, and everything that `make lint` checks.
test: lint
	$(CARGO) $(RUN_TESTS) --workspace
	$(CARGO) test --workspace --doc

## Format, lints, dependencies, generated files. Always the whole workspace: one set of features, one build.
lint: need
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) test --quiet --workspace --test it schema::
	@if command -v cargo-deny >/dev/null; then $(CARGO) deny check bans licenses sources; \
	else echo "cargo-deny is not installed: dependencies are not checked (cargo install cargo-deny)"; fi

## Handback beside the floor; writes docs/benchmarks.md.
bench: need
	$(CARGO) build --release -p handback -p handback-benches
	$(CARGO) run --release -p handback-benches --bin compare

## Write schemas/openapi.json anew from the routes.
schemas: need
	UPDATE_SCHEMAS=1 $(CARGO) test --quiet -p handback-testkit --test it schema::

need:
	@command -v $(CARGO) >/dev/null || { echo "cargo is missing: install Rust 1.95 or newer with rustup"; exit 1; }
	@command -v cc >/dev/null || command -v gcc >/dev/null || { \
	  echo "a C compiler is missing, trying to install one"; apt-get update -qq && apt-get install -y -qq gcc libc6-dev; }
	@command -v curl >/dev/null || { echo "curl is missing, trying to install it"; apt-get update -qq && apt-get install -y -qq curl; }
