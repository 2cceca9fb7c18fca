# Thin names for the commands a person types; the build itself is CMake's.
# `make help` says what each target does, docs/HACKING.md says more.

BUILD  ?= build/release
PREFIX ?= /usr/local
MODEL  ?=

WEIR    = $(BUILD)/src/cli/weir
PROMPT  = Tell me a story about a little fox.
CMAKE_B = cmake --build $(BUILD)

.PHONY: help build demo check bench format lint install uninstall clean
.DEFAULT_GOAL := help

help:
	@echo 'make demo       install what is missing, build, and chat with the bundled model'
	@echo 'make build      the same without the chat: $(WEIR)'
	@echo 'make check      build and test everything; the last line is "N passed, N failed"'
	@echo 'make bench      measure the bundled model (or MODEL=/path), the inner loops, steps and the tokenizer'
	@echo 'make format     rewrite the C files with clang-format 14'
	@echo 'make lint       the checks that need no build: layers, house rules, format, scripts'
	@echo 'make install    into PREFIX=$(PREFIX), below DESTDIR when that is set'
	@echo 'make uninstall  remove exactly what the last install put there'
	@echo 'make clean      remove build/'

build:
	@tools/setup build
	@cmake --preset release -B $(BUILD) -DWEIR_TESTS=OFF -DCMAKE_INSTALL_PREFIX='$(PREFIX)' $(CMAKE_ARGS) > /dev/null
	@$(CMAKE_B)

# A terminal gets a conversation; a pipe or a build service gets one answer.
demo: build
	@if [ -t 0 ]; then exec $(WEIR) run; else exec $(WEIR) run -p '$(PROMPT)'; fi

check:
	@tools/setup check
	@tools/check

bench: build
	@$(WEIR) bench $(MODEL)
	@$(BUILD)/bench/bench_kernels
	@$(BUILD)/bench/bench_step
	@$(BUILD)/bench/bench_tokenizer

format:
	@tools/lint --fix

lint:
	@tools/lint

install: build
	@DESTDIR='$(DESTDIR)' cmake --install $(BUILD) > /dev/null
	@echo 'installed into $(DESTDIR)$(PREFIX)'

uninstall:
	@tools/uninstall $(BUILD)/install_manifest.txt '$(DESTDIR)'

clean:
	rm -rf build
