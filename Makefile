# Users need make demo and make test; the other targets are for developers.

CARGO ?= cargo
OUT ?= out
PREFIX ?= /usr/local
# Prefix of PREFIX, for packages.
DESTDIR ?=
# Folders that differ between systems (packaging/install has their defaults).
PLACES = DESTDIR PREFIX BINDIR LIBDIR INCLUDEDIR DOCDIR MANDIR BASHDIR ZSHDIR FISHDIR UNITDIR SYSUSERSDIR SYSCONFDIR
INSTALL_PLACES = $(foreach place,$(PLACES),$(place)='$($(place))')
FUZZ_SECONDS ?= 60

.DEFAULT_GOAL := help
.PHONY: help build binary library share module demo install uninstall install-debug packages packages-test image crates test conformance lint book bench parquet peers peers-fix fuzz models tsan clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: binary library share ## Build everything that make install installs

binary: ## Build the binary and the library of sidestep run: target/release/sidestep, libsidestep_preload.so; *.debug beside them
	@scripts/bootstrap build
	$(CARGO) build --release --locked
	$(CARGO) rustc --release --locked -p sidestep-preload --lib --crate-type cdylib
	scripts/split-debug target/release/sidestep target/release/libsidestep_preload.so

library: ## Build the C library: target/release/libsidestep_c.so and target/c/libsidestep_c.a
	@scripts/bootstrap build
	$(CARGO) rustc --release --locked -p sidestep-capi --lib --crate-type cdylib --crate-type staticlib
	scripts/split-debug target/release/libsidestep_c.so
	@mkdir -p target/c
	scripts/slim-archive target/release/libsidestep_c.a target/c/libsidestep_c.a

share: binary ## Write manual pages and shell completions to target/share
	packaging/share target/release/sidestep target/share

module: ## Build the kernel module for the running kernel, whose headers must be installed: kernel/sidestep_ring.ko (kernel/README.md)
	$(MAKE) -C kernel

demo: binary ## Measure this machine in about a minute, write out/report.html and out/result.json
	target/release/sidestep demo --out $(OUT)

install: ## Install what make build has built under PREFIX (/usr/local); DESTDIR in front of it. Builds nothing
	@$(INSTALL_PLACES) packaging/install install

uninstall: ## Remove what make install has installed; a changed /etc/default/sidestep-control stays
	@$(INSTALL_PLACES) packaging/install uninstall

install-debug: ## Install the debug information of the binary and the shared library where debuggers look for it
	install -D -m 644 -t $(DESTDIR)/usr/lib/debug$(PREFIX)/bin target/release/sidestep.debug
	install -D -m 644 -t $(DESTDIR)/usr/lib/debug$(PREFIX)/lib target/release/libsidestep_c.so.debug
	install -D -m 644 -t $(DESTDIR)/usr/lib/debug$(PREFIX)/lib/sidestep target/release/libsidestep_preload.so.debug

packages: build ## Build the Debian packages: target/packages/*.deb, debug symbols among them; lintian finds nothing
	@scripts/bootstrap packages
	packaging/build

packages-test: ## Install, use, upgrade and remove the packages in a fresh Debian 12 (root; mmdebstrap)
	@scripts/bootstrap packages
	packaging/test

image: ## Build a container image of the packages without a daemon: target/packages/sidestep-VERSION.oci.tar (root; buildah)
	@scripts/bootstrap packages
	packaging/image

crates: ## Package every crate and build each from its package: target/package/*.crate
	$(CARGO) package --workspace --locked

test: ## Run every test; those that need network namespaces run as root only
	@scripts/bootstrap test
	CARGO=$(CARGO) scripts/test

conformance: ## Run the QuickFIX family's acceptance scripts, obtained as a Go module, against session and engine
	@scripts/bootstrap conformance
	for over in memory tcp; do \
		FIX_ACCEPTANCE="$$(scripts/fix-acceptance)" FIX_ACCEPTANCE_OVER=$$over \
		$(CARGO) test --locked -p sidestep-fix --test session conformance -- --nocapture || exit 1; \
	done

lint: ## Formatting, clippy, documentation, scripts, licences; warnings are errors
	@scripts/bootstrap test
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --quiet
	shellcheck -x scripts/bootstrap scripts/build-module scripts/fix-acceptance scripts/fuzz scripts/slim-archive scripts/split-debug scripts/test scripts/vm-kernels \
		packaging/build packaging/image packaging/install packaging/notices packaging/root packaging/share packaging/test \
		.ci/run peers/lib peers/*/run peers/tcp/fetch peers/fix/lib peers/fix/interop peers/fix/cost peers/fix/examples
	@if command -v cargo-deny >/dev/null 2>&1; then cargo deny --offline check licenses bans sources; \
	else echo "cargo-deny is not installed; the tidy test has checked the licences"; fi
	@if command -v mdbook >/dev/null 2>&1; then $(MAKE) book; \
	else echo "mdbook is not installed; the book test has checked the book's contents, links and commands"; fi

book: ## Build the book: target/book/index.html (installs mdbook where it is missing: some minutes)
	@scripts/bootstrap book
	mdbook build docs/book
	@! grep -rlE '<(link|script|img|source)[^>]*="(https?:)?//' --include='*.html' target/book || { echo "these pages ask other hosts for something"; false; }

bench: build ## Run all measurements for SPEC.md: about ten minutes
	@mkdir -p $(OUT)
	target/release/sidestep bench rr --transport tcp,udp --duration 10s --json $(OUT)/rr.json --html $(OUT)/rr.html
	target/release/sidestep bench rr --ladder --duration 10s --json $(OUT)/ladder.json --html $(OUT)/ladder.html
	target/release/sidestep bench sizes --duration 3s --json $(OUT)/sizes.json --html $(OUT)/sizes.html
	target/release/sidestep bench rates --duration 2s --json $(OUT)/rates.json --html $(OUT)/rates.html
	target/release/sidestep bench ring --pace hot,1ms --duration 2s --json $(OUT)/ring.json --html $(OUT)/ring.html

peers: build ## Measure against other rings, smoltcp, lwIP, FIX, ITCH and SBE codecs, order books, sockperf, a C loop, programs under run, and the verdicts of compare: about half an hour
	@scripts/bootstrap peers
	peers/ring/run
	peers/tcp/run
	peers/codec/run
	peers/itch/run
	peers/book/run
	peers/sbe/run
	peers/c-loop/run
	peers/sockperf/run
	peers/programs/run
	peers/self/run

peers-fix: build ## Measure against QuickFIX/J, QuickFIX, quickfixgo, Philadelphia, Artio; talk to QuickFIX both ways
	@scripts/bootstrap peers-fix
	peers/fix/run
	peers/fix/interop
	peers/fix/cost

parquet: ## Build and test parquet/target/release/sidestep-parquet, a workspace of its own (some minutes)
	cd parquet && CARGO_TARGET_DIR=target $(CARGO) test --release --locked && CARGO_TARGET_DIR=target $(CARGO) build --release --locked

fuzz: ## Fuzz every parser, FUZZ_SECONDS each (needs a nightly toolchain)
	@scripts/bootstrap fuzz
	scripts/fuzz $(FUZZ_SECONDS)

models: ## Check every interleaving of the rings' protocols with loom: some minutes
	RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom $(CARGO) test --release --locked -p sidestep-ring --lib models

tsan: ## Run the tests of rings, shared memory and shared engines under ThreadSanitizer (needs nightly with rust-src)
	@scripts/bootstrap tsan
	RUSTFLAGS=-Zsanitizer=thread CARGO_TARGET_DIR=target/tsan $(CARGO) +nightly test --locked -Zbuild-std \
		--target "$$(rustc -vV | sed -n 's/^host: //p')" \
		-p sidestep-ring --test threads --test model -p sidestep-socket --test shm
	RUSTFLAGS=-Zsanitizer=thread CARGO_TARGET_DIR=target/tsan $(CARGO) +nightly test --locked -Zbuild-std \
		--target "$$(rustc -vV | sed -n 's/^host: //p')" -p sidestep-socket --lib shared::

clean: ## Remove build results and measurements
	$(CARGO) clean
	rm -f kernel/*.o kernel/.*.cmd kernel/*.ko kernel/*.mod kernel/*.mod.c kernel/Module.symvers kernel/modules.order
	rm -rf $(OUT) fuzz/target parquet/target tests/outside/target peers/ring/target peers/tcp/target peers/fix/*/target \
		peers/codec/target peers/itch/target peers/sbe/target peers/book/target peers/book/parity/target
