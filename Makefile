# `make test` runs everything that must pass; the other targets are parts of it, or on demand.

CARGO ?= cargo

.PHONY: help test format lint docs docs-renew record unit count fuzz soak deny deny-if-there bench bench-self bench-docs guard guard-renew

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1	/' | expand -t 20

test: format lint docs deny-if-there unit guard test-real ## everything: format, lints, docs, unit, integration and real-peer tests

format: ## formatting as rustfmt.toml has it
	$(CARGO) fmt --check

lint: ## clippy, every warning an error; also with the keychain
	$(CARGO) clippy --all-targets -- -D warnings
	$(CARGO) clippy --test real -- -D warnings
	$(CARGO) clippy --features keychain -- -D warnings
	scripts/count-lines --check

docs: ## rustdoc, every warning an error: for who uses the library, and for who works on it
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps --document-private-items

record: ## the terminal session in the README, from a run of the release
	$(CARGO) build --release
	scripts/record-svg > docs/terminal.svg.new
	mv docs/terminal.svg.new docs/terminal.svg

docs-renew: ## write the tables in docs/ that come from the code
	MCP_SPAN_RENEW_DOCS=1 $(CARGO) test -p mcp-span-cli --lib -- tables_in_the_documentation

# Most tests wait for something most of the time: more of them than cores run at once.
unit: ## unit and integration tests: needs nothing but Rust, and curl, which plays the browser
	$(CARGO) test -- --test-threads=$(or $(THREADS),$(shell expr 3 \* $$(getconf _NPROCESSORS_ONLN)))

count: ## lines of code by package, and by module of the library; of COMMIT, or of the files as they are
	@scripts/count-lines $(COMMIT)

# Without a sanitizer: it needs a nightly compiler, and the code that is fuzzed has no unsafe blocks.
fuzz: ## random input for TARGET (each of fuzz/fuzz_targets) for SECONDS (60)
	@command -v cargo-fuzz >/dev/null || { echo "cargo-fuzz is missing: cargo install --locked cargo-fuzz"; exit 1; }
	@for target in $(or $(TARGET),$(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs)))); do \
		mkdir -p fuzz/corpus/$$target; \
		$(CARGO) fuzz run --sanitizer none $$target fuzz/corpus/$$target fuzz/seeds/$$target -- \
			-max_total_time=$(or $(SECONDS),60) -timeout=10 -print_final_stats=1 || exit 1; \
	done

soak: ## random faults, restarts and lost sessions for SECONDS (300), from SEED
	MCP_SPAN_SOAK_SECONDS=$(or $(SECONDS),300) MCP_SPAN_SOAK_SEED=$(or $(SEED),$(shell date +%s)) \
		$(CARGO) test --test it -- soak --nocapture

deny: ## advisories, licences, sources and duplicate versions of the dependencies
	@command -v cargo-deny >/dev/null || { echo "cargo-deny is missing: cargo install --locked cargo-deny"; exit 1; }
	$(CARGO) deny --locked check bans licenses sources
	@if $(CARGO) deny --log-level off fetch db 2>/dev/null; then $(CARGO) deny --frozen check advisories; \
	else echo "The RustSec advisory database cannot be fetched: advisories are not checked."; fi

deny-if-there:
	@if command -v cargo-deny >/dev/null; then $(MAKE) deny; \
	else echo "cargo-deny is not installed: dependencies are not checked (cargo install --locked cargo-deny)"; fi

bench: ## mcp-span beside a raw pass-through and the bridges of others, which it installs into target/bench
	$(CARGO) build --release
	$(CARGO) bench -p mcp-span-bench --bench bridges -- all $(BENCH_FLAGS)

bench-self: ## mcp-span beside a raw pass-through, with its limits, under two minutes
	$(CARGO) build --release
	$(CARGO) bench -p mcp-span-bench --bench bridges -- self $(BENCH_FLAGS)

bench-docs: ## the same as bench; its table and picture go into docs/performance.md and docs/bench.svg
	$(CARGO) build --release
	$(CARGO) bench -p mcp-span-bench --bench bridges -- all --docs $(BENCH_FLAGS)

guard: ## instructions that a message costs, as valgrind counts them, against benches/guard/counts.txt
	@if command -v valgrind >/dev/null; then $(CARGO) bench -p mcp-span-bench --bench guard --profile guard; \
	else echo "valgrind is not installed: the instructions of the message path are not counted"; fi

guard-renew: ## write down the instructions that a message costs now
	$(CARGO) bench -p mcp-span-bench --bench guard --profile guard -- --renew

include tests/real/Makefile.inc
