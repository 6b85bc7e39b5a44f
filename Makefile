# imtcp: `make demo` shows it, `make test` proves it. Both install what is missing (Debian 12 or
# later), build, and run. `make help` lists the rest.

BPF_CLANG ?= clang-19
CARGO ?= cargo
SEEDS ?= 3

# One set of flags for BPF objects, here and in crates/imtcp-bpf/build.rs. Paths in them are relative: each
# clone has the same bytes.
BPF_CFLAGS := -O2 -g -target bpf -mcpu=v3 -Wall -Werror -Icore/include -Ibpf -ffile-compilation-dir=.
BPF_HEADERS := $(wildcard core/include/imtcp/*.h bpf/*.h)
BPF_OBJECTS := target/bpf/imtcp.bpf.o target/bpf/imtcp_modes.bpf.o target/bpf/imtcp_paper.bpf.o \
	target/bpf/imtcp_nocc.bpf.o target/bpf/imtcp_ctl.bpf.o target/bpf/imtcp_uncovered.bpf.o

PREFIX ?= /usr/local
UNITS ?= $(PREFIX)/lib/systemd/system

# The command, the advice service, and the agent that feeds it.
PROGRAMS := imtcp imtcp-advice imtcp-agent
SERVICES := imtcp-rules imtcp-advice imtcp-agent imtcp-metrics
COMPLETIONS := $(foreach p,$(PROGRAMS),bash-completion/completions/$(p) zsh/site-functions/_$(p) \
	fish/vendor_completions.d/$(p).fish)

.PHONY: install uninstall deb help setup setup-tests build bpf man lab-env tests-env demo demo-programs demo-kernel
.PHONY: proftpd install-proftpd test test-all test-quick book lint format bench fuzz clean
.DEFAULT_GOAL := help

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | sort | column -t -s '	'

include core/Makefile.inc

setup: ## install what is missing from Debian
	@scripts/setup.sh

setup-tests: ## and what tests alone need
	@scripts/setup.sh tests

bpf: $(BPF_OBJECTS)

target/bpf/%.bpf.o: bpf/%.bpf.c $(BPF_HEADERS)
	@mkdir -p $(@D)
	$(BPF_CLANG) $(BPF_CFLAGS) -c $< -o $@

build: setup bpf ## target/release/imtcp, imtcp-advice, imtcp-agent, and target/bpf/imtcp.bpf.o
	$(CARGO) build --release --locked

man: build ## target/man: manual pages, from the same source as --help
	@mkdir -p target/man
	for program in $(PROGRAMS); do target/release/$$program man target/man || exit; done

# Builds nothing: under sudo the compiler may be another, or none.
install: ## into PREFIX (/usr/local): the programs, their manual pages and completions
	@[ -x target/release/imtcp ] || { echo "nothing is built yet: run make build first" >&2; exit 1; }
	for program in $(PROGRAMS); do \
		install -Dm755 target/release/$$program $(DESTDIR)$(PREFIX)/bin/$$program || exit; done
	@mkdir -p $(DESTDIR)$(PREFIX)/share/man/man1 \
		$(addprefix $(DESTDIR)$(PREFIX)/share/,$(dir $(COMPLETIONS)))
	@mkdir -p $(DESTDIR)$(UNITS)
	for unit in $(SERVICES); do \
		sed 's|/usr/local/bin|$(PREFIX)/bin|' packaging/systemd/$$unit.service >$(DESTDIR)$(UNITS)/$$unit.service || exit; done
	install -Dm644 packaging/grafana/imtcp.json $(DESTDIR)$(PREFIX)/share/imtcp/grafana.json
	install -Dm644 packaging/prometheus/imtcp.rules.yml $(DESTDIR)$(PREFIX)/share/imtcp/prometheus.rules.yml
	set -e; share=$(DESTDIR)$(PREFIX)/share; for program in $(PROGRAMS); do \
		made=target/release/$$program; \
		$$made man $$share/man/man1; \
		$$made completions bash >$$share/bash-completion/completions/$$program; \
		$$made completions zsh >$$share/zsh/site-functions/_$$program; \
		$$made completions fish >$$share/fish/vendor_completions.d/$$program.fish; done

uninstall: ## undo install
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/bin/,$(PROGRAMS)) $(patsubst %,$(DESTDIR)$(UNITS)/%.service,$(SERVICES)) \
		$(DESTDIR)$(PREFIX)/share/man/man1/imtcp.1 \
		$(DESTDIR)$(PREFIX)/share/man/man1/imtcp-*.1 $(addprefix $(DESTDIR)$(PREFIX)/share/,$(COMPLETIONS))
	rm -rf $(DESTDIR)$(PREFIX)/share/imtcp

deb: build ## target/deb/*.deb, Debian packages of what is built
	@scripts/setup.sh deb
	cd packaging && debian/rules clean && debian/rules binary
	@ls target/deb/*.deb

# Not part of build: who has no ProFTPD need not have its headers.
proftpd: ## target/proftpd/mod_imtcp.so, a module for ProFTPD (docs/how-to/ftp.md); needs proftpd-dev
	@$(MAKE) --no-print-directory -C proftpd

install-proftpd: ## where ProFTPD finds it
	@$(MAKE) --no-print-directory -C proftpd install

lab-env: setup ## .venv with the laboratory: .venv/bin/lab
	@scripts/lab-env.sh

tests-env: setup-tests
	@scripts/lab-env.sh tests

# Always target/demo, built or not what is in target/release: the same figures either way.
demo: setup ## upload a file tree beside web traffic, with every control in turn: out/demo
	@$(MAKE) --no-print-directory -j2 demo-programs demo-kernel
	IMTCP_PROGRAMS=target/demo .venv/bin/lab demo --seeds $(SEEDS)

# What the demo runs, and no more: without the advice service and its libraries.
demo-programs: setup bpf
	@# cargo looks for the -j2 of `make demo`, and complains that it may not have it.
	MAKEFLAGS= $(CARGO) build --profile demo --locked -p imtcp -p imtcp-load

# Fetched while the compiler works.
demo-kernel: lab-env
	@.venv/bin/lab vm build --kernel 6.12 --fetch-only

test: build tests-env proftpd ## unit, property, fuzz smoke, BPF on each kernel, end to end; guests where they changed
	scripts/test.sh

test-all: build tests-env proftpd ## the same with all guests, and the quick form of every figure
	IMTCP_TEST_FIGURES=all scripts/test.sh --all

test-quick: build tests-env ## what needs no virtual machine
	scripts/test.sh --quick

# Not part of build: the pages read as well without it.
book: ## docs/ as a book in target/book, with mdBook
	@command -v mdbook >/dev/null || { echo "mdbook is missing: cargo install mdbook, or a binary from" \
		"https://github.com/rust-lang/mdBook/releases" >&2; exit 1; }
	mdbook build docs

lint: setup lab-env ## clippy, rustfmt, clang-format, ruff, shellcheck, who may know whom
	scripts/lint.sh

audit: setup ## known faults, licences and origins of the libraries: cargo-deny and pip-audit
	scripts/audit.sh

format: ## rewrite sources as lint wants them
	$(CARGO) fmt --all
	clang-format-19 -i $$(git ls-files '*.c' '*.h')
	.venv/bin/ruff format conftest.py clients lab tests scripts
	.venv/bin/ruff check --fix conftest.py clients lab tests scripts

bench: setup-tests build lab-env ## speed and memory, as ratios in one run
	.venv/bin/lab bench
	@if [ "$$(id -u)" = 0 ]; then .venv/bin/lab veth; else echo "lab veth needs root: left out"; fi
	$(CARGO) bench --locked -p imtcp-advice

fuzz: core-fuzz-smoke ## ten seconds of each fuzz target

clean: ## remove what was built; caches of kernels stay in ~/.cache/imtcp-lab
	rm -rf target out .venv
