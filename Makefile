# A thin front to CMake. `make demo` and `make test` install what is missing, build and run; both may be repeated.
# `make help` lists the targets.

CORES := $(shell nproc)
PRESET ?= release
BUILD := build/$(PRESET)
# Warnings are errors in CI; the developers' presets ask for it themselves.
STRICT := $(if $(filter true 1,$(CI)),-DLS_WERROR=ON)

# What is built: the product (all), its program alone (program), with what the tests need (tests, tests_all).
TARGETS := all

.PHONY: help setup build cuda test test-all quick fuzz demo install clean format
help:
	@echo "make demo     set up, build the program; then probe, plan, train, bench and report on this machine"
	@echo "make test     set up, build, run the test suite"
	@echo "make test-all set up, build, run the tests that make test leaves out: they need minutes, a browser, other hosts"
	@echo "make quick    set up, build, the demo with few steps, the quickest tests; make bare-trixie does so in a bare system of Debian 13"
	@echo "make fuzz     set up, build, fuzz every parser of outside data for a minute (the tests do for a second)"
	@echo "make build    build the preset PRESET=$(PRESET) (release, dev, debug, asan, tsan, clang, cuda)"
	@echo "make cuda     build with the CUDA module, which the other targets build only where a GPU's driver answers"
	@echo "make install  install the build under PREFIX (default /usr/local)"
	@echo "make format   clang-format the sources"
	@echo "make clean    remove build/"

setup:
	@scripts/setup.sh

build: setup
	@echo "build: $(BUILD)"
	@cmake --preset $(PRESET) $(STRICT) $(FLAGS) >$(if $(V),/dev/stdout,/dev/null)
	@cmake --build $(BUILD) --target $(TARGETS) -- -j $(CORES) $(if $(V),-v,--quiet)

cuda: FLAGS := -DLS_CUDA=ON
cuda: build

# One test more than there are cores: some wait for deadlines, signals or files. SERIAL ones are alone all the same.
CTEST = ctest --test-dir $(BUILD) -j $$(($(CORES) + 1)) --output-on-failure --no-tests=error
test: TARGETS := all tests
test: build
	@$(CTEST) -LE '^all$$'

test-all: TARGETS := all tests_all
test-all: export LOCKSTEP_SEED ?= $(shell date +%Y%m%d)
test-all: build
	@echo "test-all: LOCKSTEP_SEED=$(LOCKSTEP_SEED)"
	@$(CTEST) -L '^all$$'
	@$(MAKE) --no-print-directory bare-noble

# What a system needs some minutes for, and where systems differ: compiler, libraries, MPI.
quick: TARGETS := all tests/base/all tests/data/all tests/comm/all test_ops_compare
quick: build
	@DEMO_QUICK=1 scripts/demo.sh
	@$(CTEST) -R '^(test_(base|data|comm)_|compare_cpu_2|program_(commands|one_run)$$)' -LE '^all$$'

# The same in a bare system: bare-trixie, bare-noble. Where none can be made, one line says so.
bare-%:
	@CI='' scripts/bare_debian.sh $* 'make quick STRICT=-DLS_WERROR=ON' || [ $$? = 77 ]

fuzz: TARGETS := tests_all
fuzz: build
	@LOCKSTEP_FUZZ_SECONDS=60 ctest --test-dir $(BUILD) -j $(CORES) -L fuzz --output-on-failure --no-tests=error

demo:
	@start=$$(date +%s); $(MAKE) --no-print-directory build TARGETS=program && scripts/demo.sh $(BUILD)/bin/lockstep && \
	  echo "demo: with set-up and build $$(($$(date +%s) - start)) s"

install: build
	@cmake --install $(BUILD) --prefix $(or $(PREFIX),/usr/local)

format:
	@git ls-files '*.c' '*.h' '*.cu' '*.cuh' | xargs clang-format-14 -i 2>/dev/null || \
	  git ls-files '*.c' '*.h' '*.cu' '*.cuh' | xargs clang-format -i

clean:
	@rm -rf build
