# One word for each thing a person does with this tree. Each target may be run again at any time and
# is quick when there is nothing to do.
# SPDX-License-Identifier: Apache-2.0
.NOTPARALLEL:
.PHONY: help demo test deps test-deps build model install format lint bench clean \
        test-release test-asan test-fuzz

MODEL ?= smollm2
PREFIX ?= /usr/local
DESTDIR ?=
JOBS ?= $(shell nproc)
PROMPT ?= Why is the sky blue?
FUZZ_SECONDS ?= 5
BINARY := build/release/ridge

help:
	@echo "make demo       packages, Release build, default model, one generation with its table"
	@echo "make test       packages, builds, models, all tests"
	@echo "make deps       install what building and running needs (packages.txt)"
	@echo "make test-deps  install what the tests need beside it"
	@echo "make build      $(BINARY)"
	@echo "make model      fetch a model, print its path (MODEL=smollm2 or gemma3)"
	@echo "make install    install the binary (PREFIX, DESTDIR)"
	@echo "make format     clang-format; make lint: clang-format and clang-tidy, checking only"
	@echo "make bench      ridge beside llama.cpp on the same models"
	@echo "make clean      remove build/"

# By environment and unexpanded: quotes and dollars of the prompt mean nothing to make or the shell.
demo: export RIDGE_PROMPT = $(value PROMPT)
demo: deps build
	@set -e; model="$$(python3 tools/fetch_model.py $(MODEL) | tail -n 1)"; \
	set -x; $(BINARY) run "$$model" -p "$$RIDGE_PROMPT" -n 128 --temp 0

deps:
	@tools/install_packages.sh build

test-deps:
	@tools/install_packages.sh build test

build:
	@cmake --preset release -DRIDGE_TESTS=OFF -DRIDGE_BENCH=OFF --log-level=NOTICE >/dev/null
	@cmake --build --preset release --parallel $(JOBS) --target ridge

model:
	@python3 tools/fetch_model.py $(MODEL)

install: build
	@DESTDIR='$(DESTDIR)' cmake --install build/release --prefix '$(PREFIX)'

test: test-deps test-release test-asan test-fuzz

# The release tree with everything; the real models' paths go to the tests by environment.
test-release:
	@cmake --preset release -DRIDGE_TESTS=ON -DRIDGE_BENCH=ON --log-level=NOTICE >/dev/null
	@cmake --build --preset release --parallel $(JOBS)
	@set -e; \
	RIDGE_TEST_SMOLLM2="$$(python3 tools/fetch_model.py smollm2 | tail -n 1)"; \
	RIDGE_TEST_GEMMA3="$$(python3 tools/fetch_model.py gemma3 | tail -n 1)"; \
	export RIDGE_TEST_SMOLLM2 RIDGE_TEST_GEMMA3; \
	ctest --test-dir build/release --output-on-failure --no-tests=error -j $(JOBS)

# Memory and arithmetic errors: everything but what needs a whole real model or looks at sources.
test-asan:
	@cmake --preset asan -DRIDGE_TESTS=ON -DRIDGE_BENCH=OFF --log-level=NOTICE >/dev/null
	@cmake --build --preset asan --parallel $(JOBS)
	@ctest --test-dir build/asan --output-on-failure --no-tests=error -j $(JOBS) \
	  -LE 'golden|tidy|qemu|per_isa|bench_smoke'

# New random inputs for a few seconds; a finding is written to build/fuzz and fails the run.
test-fuzz:
	@cmake --preset fuzz -DRIDGE_FUZZ_SECONDS=$(FUZZ_SECONDS) --log-level=NOTICE >/dev/null
	@cmake --build --preset fuzz --parallel $(JOBS) --target fuzzers
	@ctest --test-dir build/fuzz --output-on-failure --no-tests=error -j $(JOBS) -L fuzz

format:
	@git ls-files '*.cc' '*.h' | xargs clang-format-16 -i

lint:
	@python3 tests/lint.py --build build/release --jobs $(JOBS)

bench: MODELS ?= smollm2 gemma3
bench: build
	@tools/install_packages.sh build test bench
	@cmake --preset release -DRIDGE_TESTS=OFF -DRIDGE_BENCH=ON --log-level=NOTICE >/dev/null
	@cmake --build --preset release --parallel $(JOBS)
	@set -e; for name in $(MODELS); do \
	  python3 bench/compare_llama_cpp.py --ridge $(BINARY) \
	    --model "$$(python3 tools/fetch_model.py $$name | tail -n 1)"; \
	done

clean:
	@rm -rf build
