# What you need: cargo, a C compiler, curl (the tests run the README), Node 20.19 (the TypeScript SDK, and clients of
# others in the tests), Chromium (both in a page), Python 3.10 (clients of others, and what checks the API's
# description, and what makes packages), PostgreSQL 15 (tests in Rust), tmux (a client in a terminal) and systemd-analyze (the
# unit). What is missing is installed or named.
.PHONY: all run test soak fuzz foreign sdk console console-check console-test picture dist dist-common crates packages lint lines bench \
  schemas need need-node need-python need-chromium need-tmux need-postgres need-packaging

CARGO ?= cargo
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
# The one of the tests: the same features, nothing is built twice.
BINARY := $(TARGET)/debug/handback
# The binary is not larger than this, in bytes.
LARGEST_BINARY := 30000000
# The version that the fuzz targets are built with.
CARGO_FUZZ := 0.13.2
# nextest where it is there, cargo's own runner elsewhere. nextest starts PostgreSQL itself.
RUN_TESTS := $(if $(shell command -v cargo-nextest),$(CARGO) nextest run --no-fail-fast,crates/testkit/postgres.sh run $(CARGO) test)

all: run

## Start the server.
run: need
	$(CARGO) run --release

## All tests, and everything that `make lint` checks.
test: lint need-postgres
	$(RUN_TESTS) --workspace
	$(CARGO) test --workspace --doc
	$(MAKE) foreign
	$(MAKE) sdk
	$(MAKE) console-test
	$(MAKE) packages

## What takes too long for every day: the storms of the tests, ten times as long, in both languages; 10,000 schemas as nasty as
## they can be; 100,000 simulated schedules; 500 kills under 10,000 calls; and an hour of load, or SOAK_SECONDS.
soak: need foreign/node_modules/.installed sdk/typescript/node_modules/.installed
	SOAK=1 $(CARGO) test --release -p handback-core --lib schema::tests::nasty -- --nocapture
	$(CARGO) build --workspace --locked
	STORM_CALLS=10000 $(CARGO) test --workspace --test it storm:: -- --nocapture --test-threads=1
	cd sdk/typescript && STORM_CALLS=10000 HANDBACK_BINARY=$(BINARY) \
	  node --import tsx --test --test-reporter=spec test/storm.test.ts
	SIMULATIONS=100000 $(CARGO) test --release -p handback-testkit --test it survival::simulation
	cd sdk/typescript && npm run --silent build
	cd foreign && SURVIVAL_CALLS=10000 SURVIVAL_KILLS=500 HANDBACK_BINARY=$(BINARY) \
	  node --test --test-reporter=spec survival
	$(CARGO) test --workspace --test it soak:: -- --ignored --nocapture

## Every fuzz target for a minute, or for FUZZ_SECONDS, with nightly Rust. What breaks one is in fuzz/artifacts; what is new is in
## fuzz/found. There is next to no unsafe code to be watched, so no sanitizer slows it down.
fuzz: need
	@$(CARGO) +nightly --version >/dev/null || { echo "nightly Rust is missing: rustup toolchain install nightly"; exit 1; }
	@$(CARGO) fuzz --version 2>/dev/null | grep -qF " $(CARGO_FUZZ)" || $(CARGO) install --locked cargo-fuzz@$(CARGO_FUZZ)
	@for target in $(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs))); do \
	  mkdir -p fuzz/found/$$target && echo "$$target" && \
	  $(CARGO) +nightly fuzz run --sanitizer none --codegen-units 16 $$target fuzz/found/$$target fuzz/corpus/$$target -- \
	    -max_total_time=$(or $(FUZZ_SECONDS),60) -max_len=8192 -rss_limit_mb=2048 -timeout=20 -verbosity=0 -print_final_stats=1 || exit 1; \
	done

## Clients of others against a real server, in Node, in Python, in a page and in a terminal. Some use the TypeScript SDK, too.
foreign: need need-chromium need-tmux foreign/node_modules/.installed foreign/.venv/.installed sdk/typescript/node_modules/.installed
	$(CARGO) build --workspace --locked
	cd sdk/typescript && npm run --silent build
	cd foreign && HANDBACK_BINARY=$(BINARY) npm test

foreign/node_modules/.installed: foreign/package.json foreign/package-lock.json | need-node
	cd foreign && npm ci --no-audit --no-fund --loglevel=error
	touch $@

# Made anew: pip would leave behind what is no longer required.
foreign/.venv/.installed: foreign/python/requirements.txt | need-python
	rm -rf foreign/.venv
	python3 -m venv foreign/.venv
	foreign/.venv/bin/pip install --quiet --disable-pip-version-check --requirement $<
	touch $@

## The TypeScript SDK: its types, its build, and its tests against a real server.
sdk: need need-chromium sdk/typescript/node_modules/.installed
	$(CARGO) build --workspace --locked
	cd sdk/typescript && npm run --silent check
	cd sdk/typescript && HANDBACK_BINARY=$(BINARY) npm test

sdk/typescript/node_modules/.installed: sdk/typescript/package.json sdk/typescript/package-lock.json | need-node
	cd sdk/typescript && npm ci --no-audit --no-fund --loglevel=error
	touch $@

## Build the console anew; what is built is committed in the crate of the server.
console: console/node_modules/.installed
	cd console && npm run --silent build

## The console's types, and that crates/server/console is what its sources build to.
console-check: console/node_modules/.installed
	cd console && npm run --silent check

## The console in a real browser, against a real server.
console-test: need need-chromium console-check
	$(CARGO) build --workspace --locked
	cd console && HANDBACK_BINARY=$(BINARY) npm test

## Make the README's moving picture anew, docs/handback.webp, from the real console.
picture: need need-chromium console/node_modules/.installed
	$(CARGO) build --workspace --locked
	cd console && HANDBACK_BINARY=$(BINARY) npm run --silent picture

console/node_modules/.installed: console/package.json console/package-lock.json | need-node
	cd console && npm ci --no-audit --no-fund --loglevel=error
	touch $@

# Packages a binary, $(1), into a folder, $(2): the same for what is released and for what is tested.
define make-packages
	rm -rf $(2)
	packaging/make.py binary $(1) --target $$(rustc -vV | sed -n 's/^host: //p') --out $(2)
	$(call make-common-packages,$(2))
endef

# The packages that are one for all platforms, for those whose packages are in a folder, $(1).
define make-common-packages
	packaging/make.py launcher --out $(1)
	cd sdk/typescript && npm pack --silent --pack-destination $(1)
endef

## All that is released, for this machine, in target/packages. It takes long: it is built for speed and size.
dist: need need-python sdk/typescript/node_modules/.installed
	$(CARGO) build --profile dist --locked
	@size=$$(wc -c < $(TARGET)/dist/handback); test $$size -le $(LARGEST_BINARY) || { \
	  echo "target/dist/handback has $$size bytes, and may have $(LARGEST_BINARY): see what made it larger"; exit 1; }
	$(call make-packages,$(TARGET)/dist/handback,$(TARGET)/packages)

## Builds each crate from its package, as it would be published.
crates: need
	$(CARGO) publish --dry-run --workspace --locked --allow-dirty

## The packages that are one for all platforms, when the others are in target/packages.
dist-common: need-node sdk/typescript/node_modules/.installed
	$(call make-common-packages,$(TARGET)/packages)

## Packages the binary of the tests as `make dist` does, lints what is around it, installs each package and uses it.
packages: need need-packaging sdk/typescript/node_modules/.installed packaging/.venv/.installed
	packaging/.venv/bin/hadolint packaging/Dockerfile
	packaging/.venv/bin/zizmor --quiet --offline --no-progress .github/workflows
	$(CARGO) build --workspace --locked
	mkdir -p $(TARGET)/stripped && strip -o $(TARGET)/stripped/handback $(BINARY)
	$(call make-packages,$(TARGET)/stripped/handback,$(TARGET)/packages-of-tests)
	PACKAGES=$(TARGET)/packages-of-tests $(CARGO) test --workspace --test it packages:: -- --ignored

packaging/.venv/.installed: packaging/requirements.txt | need-python
	rm -rf packaging/.venv
	python3 -m venv packaging/.venv
	packaging/.venv/bin/pip install --quiet --disable-pip-version-check --requirement $<
	touch $@

## Format, lints, dependencies, generated files, the API's description. Always the whole workspace: one set of features, one
## build.
lint: need foreign/.venv/.installed
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) test --quiet --workspace --test it schema::
	foreign/.venv/bin/openapi-spec-validator --validation-errors all crates/server/openapi.json
	@if command -v cargo-deny >/dev/null; then $(CARGO) deny check bans licenses sources; \
	else echo "cargo-deny is not installed: dependencies are not checked (cargo install cargo-deny)"; fi

## How many lines of Rust are shipped: without tests and what is there for them.
lines:
	@find crates -path '*/src/*' -name '*.rs' -not -path 'crates/testkit/*' -not -path '*/tests/*' -not -name tests.rs \
	  | xargs cat | wc -l

## Handback beside the floor, and against a hostile client; writes docs/benchmarks.md and docs/hostile.md. With
## EARLIER=file, an earlier build of handback: beside that one; writes docs/earlier.md.
bench: need
	$(CARGO) build --release -p handback -p handback-benches
	$(or $(CARGO_TARGET_DIR),target)/release/compare $(if $(EARLIER),--earlier $(EARLIER))

## Write crates/server/openapi.json anew from the routes, and the schemas that the foreign tests have of schemars.
schemas: need
	UPDATE_SCHEMAS=1 $(CARGO) test --quiet -p handback-testkit --test it schema::

need:
	@command -v $(CARGO) >/dev/null || { echo "cargo is missing: install Rust 1.95 or newer with rustup"; exit 1; }
	@command -v cc >/dev/null || command -v gcc >/dev/null || { \
	  echo "a C compiler is missing, trying to install one"; apt-get update -qq && apt-get install -y -qq gcc libc6-dev; }
	@command -v curl >/dev/null || { echo "curl is missing, trying to install it"; apt-get update -qq && apt-get install -y -qq curl; }

need-node:
	@command -v npm >/dev/null || { echo "Node is missing, trying to install it"; apt-get update -qq && apt-get install -y -qq nodejs npm; }
	@node -e 'const [major, minor] = process.versions.node.split("."); process.exit(major > 20 || (major == 20 && minor >= 19) ? 0 : 1)' \
	  || { echo "Node $$(node --version) is too old: install 20.19 or newer"; exit 1; }

# A venv needs ensurepip, which Debian has in a package of its own.
need-python:
	@python3 -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "Python's venv is missing, trying to install it"; apt-get update -qq && apt-get install -y -qq python3-venv; }
	@python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
	  || { echo "$$(python3 --version) is too old: install 3.10 or newer"; exit 1; }

need-chromium:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || { \
	  echo "Chromium is missing, trying to install it"; apt-get update -qq && apt-get install -y -qq chromium; }

need-tmux:
	@command -v tmux >/dev/null || { echo "tmux is missing, trying to install it"; apt-get update -qq && apt-get install -y -qq tmux; }

need-postgres:
	@crates/testkit/postgres.sh need

# What tests the packages reads a manual page and a unit of systemd.
need-packaging:
	@command -v man >/dev/null || { echo "man is missing, trying to install it"; apt-get update -qq && apt-get install -y -qq man-db; }
	@command -v systemd-analyze >/dev/null || { \
	  echo "systemd-analyze is missing, trying to install it"; apt-get update -qq && apt-get install -y -qq systemd; }
