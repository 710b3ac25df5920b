# Builds, tests and plots the course; `make help` lists the targets, `make -n TARGET` the commands.
# What is generated lies in build/, what is installed in .venv/.

MAKEFLAGS += --jobs=$(shell nproc) --no-builtin-rules
.DELETE_ON_ERROR:
.SECONDEXPANSION:
.DEFAULT_GOAL := help
.PHONY: help setup toolkit lessons test mutants fuzz test-gpu bench plots schedules tables format clean FORCE

CXXFLAGS ?= -O2
CUDAHOSTCXX ?= $(CXX)
PYTHON := .venv/bin/python

lesson_sources := $(sort $(wildcard lessons/lesson[0-9][0-9]_*.cu))
lessons := $(foreach source,$(notdir $(lesson_sources)),$(firstword $(subst _, ,$(source))))

## help: list the targets
help:
	@sed -n 's/^## \([^:]*\): \(.*\)/make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16

## setup: install what is missing of Catch2, matplotlib and a disassembler, and look for nvcc
setup:
	@tools/setup.sh

## toolkit: install a CUDA compiler from PyPI into .venv, for a machine without one
toolkit: .venv/toolkit/nvidia/cu13/bin/nvcc

.venv/toolkit/nvidia/cu13/bin/nvcc: tools/toolkit.txt
	@tools/setup.sh toolkit

# ---- The toolkit, found anew by each call; what depends on it is rebuilt when it is another one.

ifneq ($(filter-out help setup toolkit diff% plots tables format clean,$(or $(MAKECMDGOALS),help)),)
include build/toolchain.mk
endif

build/toolchain.mk: FORCE
	@mkdir -p build
	@tools/toolchain.sh >$@.new || { rm $@.new; exit 1; }
	@echo '# Host compilers: $(CXX) $(CXXFLAGS), $(CUDAHOSTCXX)' >>$@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

rules := Makefile build/toolchain.mk

# ---- Lessons: device code. The PTX that ptxas assembles is kept and put into the program.

# Not -arch=sm_90a: from nvcc 12.9 on, that also compiles for compute_90, which rejects wgmma.
nvcc_flags := -std=c++20 -O3 -lineinfo -gencode arch=compute_90a,code=sm_90a -Xptxas -v -I. \
    -Xcompiler -Wall,-Wextra,-Werror

## lessonNN: build ./lessonNN
$(lessons): %: build/%.o build/%.ptx.o build/libcommon.a
	@echo "link $@"
	@$(CXX) $(filter %.o %.a,$^) -o $@ $(link_flags)

lesson%:
	@echo "There is no lesson $*: lessons/ has $(lessons)." >&2; exit 1

## lessons: build all of them
lessons: $(lessons)

build/lesson%.o build/lesson%.ptx build/lesson%.cubin: $$(wildcard lessons/lesson$$*_*.cu) \
    tools/check_ptxas_log.sh $(rules)
	@echo "nvcc $<"
	@rm -rf build/lesson$* && mkdir build/lesson$*
	@$(NVCC_PATH) -ccbin $(CUDAHOSTCXX) $(nvcc_flags) -keep -keep-dir build/lesson$* \
	    -MD -MP -MF build/lesson$*.d -c $< -o build/lesson$*.o >build/lesson$*.ptxas.log 2>&1 || \
	    { grep -v '^ptxas info\|bytes stack frame' build/lesson$*.ptxas.log >&2; exit 1; }
	@tools/check_ptxas_log.sh build/lesson$*.ptxas.log
	@mv build/lesson$*/*.ptx build/lesson$*.ptx
	@mv build/lesson$*/*.cubin build/lesson$*.cubin
	@rm -r build/lesson$*

$(lessons:%=build/%.ptx.o): build/%.ptx.o: build/%.ptx tools/ptx.S $(rules)
	@$(CXX) -c -DPTX_FILE='"$<"' tools/ptx.S -o $@

# ---- Test kernels: PTX for the emulator. ptxas assembles it too, only to object.

test_kernels := $(patsubst tests/kernels/%.cu,build/tests/kernels/%,$(wildcard tests/kernels/*.cu))
# What ptxas repairs is broken on purpose.
assembled_kernels := $(filter-out %_repaired,$(test_kernels))

$(test_kernels:%=%.ptx): build/%.ptx: %.cu $(rules)
	@echo "nvcc $<"
	@mkdir -p $(@D)
	@$(NVCC_PATH) -ccbin $(CUDAHOSTCXX) $(nvcc_flags) -MD -MP -MF build/$*.d -ptx $< -o $@

$(assembled_kernels:%=%.cubin): %.cubin: %.ptx tools/check_ptxas_log.sh
	@$(NVCC_PATH) $(nvcc_flags) -cubin $< -o $@ >$*.ptxas.log 2>&1 || \
	    { cat $*.ptxas.log >&2; exit 1; }
	@tools/check_ptxas_log.sh $*.ptxas.log

# ---- Everything else: host code.

host_flags := -std=c++20 -Wall -Wextra -Werror -I. \
    -isystem $(CUDA_INCLUDE) -isystem .venv/catch2/catch2/install/include
# A kernel's registration is wrapped to learn its name (common/device/kernel_registry.cc). cuBLAS is
# loaded at run time, from the folder that the rpath names.
link_flags = -Wl,--wrap=__cudaRegisterFunction -Wl,--enable-new-dtags,-rpath,$(CUBLAS_FOLDER) \
    -L$(CUDART_FOLDER) -lcudart_static -ldl -lrt -lpthread
# Catch2 v2 is a header; v3 is a library too.
catch2_library = $(shell $(CXX) -E -x c++ -include catch2/catch_test_macros.hpp /dev/null \
    >/dev/null 2>&1 && echo -lCatch2)

common_objects := $(patsubst %.cc,build/%.o,$(wildcard common/*/*.cc))
golden_sources := $(filter-out %/dump_main.cc,$(wildcard tests/golden/*.cc))
unit_objects := $(patsubst %.cc,build/%.o,$(wildcard tests/unit/*.cc tests/emulator/*.cc) $(golden_sources))
# The tests of the emulator read these when they run.
unit_ptx := $(lessons:%=build/%.ptx) $(test_kernels:%=%.ptx) $(assembled_kernels:%=%.cubin)

build/%.o: %.cc $(rules)
	@echo "g++  $<"
	@mkdir -p $(@D)
	@$(CXX) $(host_flags) $(CXXFLAGS) -MD -MP -c $< -o $@

# The commit that a result file names: when it is another one, what holds it is compiled again.
build/commit: FORCE
	@mkdir -p build
	@git describe --always --abbrev=12 --dirty 2>/dev/null >$@.new || true
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

build/common/harness/machine.o: build/commit
build/common/harness/machine.o: host_flags += -DBUILD_COMMIT=\"$$(cat build/commit)\"

build/libcommon.a: $(common_objects)
	@rm -f $@
	@ar rcs $@ $^

$(unit_objects): | setup

build/unit_tests: $(unit_objects) build/libcommon.a | $(unit_ptx)
	@echo "link $@"
	@$(CXX) $^ -o $@ $(link_flags) $(catch2_library)

build/check_cublas: build/tests/gpu/check_cublas.o build/libcommon.a
	@echo "link $@"
	@$(CXX) $^ -o $@ $(link_flags)

## ptxrun: build ./ptxrun, which runs a kernel of any PTX file on the emulator
ptxrun: build/tools/ptxrun.o build/tools/ptxrun_arguments.o build/libcommon.a
	@echo "link $@"
	@$(CXX) $^ -o $@ $(link_flags)

# Runs a test kernel as a lesson is run, for the mutants.
build/run_kernel: build/tests/mutants/run_kernel.o build/tests/emulator/workbench.o build/libcommon.a \
    | $(test_kernels:%=%.ptx)
	@echo "link $@"
	@$(CXX) $^ -o $@ $(link_flags)

# For the fuzz: the emulator with sanitizers, which stop at the first finding.
sanitizers := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all
fuzz_objects := $(patsubst %.cc,build/fuzz/%.o,$(wildcard common/emulator/*.cc))

build/fuzz/%.o: %.cc $(rules)
	@echo "g++  $< (sanitized)"
	@mkdir -p $(@D)
	@$(CXX) $(host_flags) $(sanitizers) -MD -MP -c $< -o $@

build/fuzz/parser_fuzz: build/fuzz/tests/fuzz/parser_fuzz.o $(fuzz_objects)
build/fuzz/machine_fuzz: build/fuzz/tests/fuzz/machine_fuzz.o \
    build/fuzz/tests/emulator/workbench.o $(fuzz_objects)
build/fuzz/parser_fuzz build/fuzz/machine_fuzz:
	@echo "link $@"
	@$(CXX) $(sanitizers) $^ -o $@

# ---- Tests, measurements, figures.

## test: run every test that needs no GPU
test: setup lessons ptxrun build/unit_tests build/run_kernel
	@$(PYTHON) tests/run.py

## mutants: break each kernel in every way, and see what the emulator finds, into docs/emulator.md
mutants: setup lessons build/run_kernel
	@$(PYTHON) tests/mutants/run.py --write

MINUTES ?= 10
## fuzz: run the emulator on damaged PTX for MINUTES=10
fuzz: setup build/fuzz/parser_fuzz build/fuzz/machine_fuzz build/run_kernel
	@$(PYTHON) tests/fuzz/fuzz.py $(MINUTES)

## test-gpu: check every lesson on this machine's Hopper GPU
test-gpu: setup lessons build/check_cublas
	@$(PYTHON) tests/gpu/run.py

## bench: measure every lesson on this machine's Hopper GPU, into plots/data
bench: setup lessons
	@$(PYTHON) tests/gpu/bench.py

## plots: draw the figures from plots/data
plots: setup
	@$(PYTHON) plots/ladder.py
	@$(PYTHON) plots/roofline.py
	@$(PYTHON) plots/two_laps.py
	@$(PYTHON) plots/epilogues.py
	@for sweep in stages lag k_sweep sawtooth crossovers; do $(PYTHON) plots/sweeps.py --sweep $$sweep || exit; done
	@$(PYTHON) plots/promotion.py $(firstword $(wildcard plots/data/nvidia-h200/promotion.jsonl) \
	    plots/data/emulator/promotion.jsonl)
	@for trace in $(wildcard plots/data/nvidia-h200/trace_lesson*.json plots/data/emulator/trace_lesson*.json); do \
	    $(PYTHON) plots/timeline.py $$trace || exit; \
	done
	@for raster in n m; do \
	    $(PYTHON) plots/schedule.py --view order plots/data/schedules/order_$${raster}_*.csv \
	        -o docs/images/order_$$raster.png || exit; \
	done
	@$(PYTHON) plots/schedule.py --view pieces -o docs/images/schedule_stream_k.png \
	    $(addprefix plots/data/schedules/,data_parallel.csv stream_k.csv hybrid.csv)

## schedules: print again the schedules that the figures show, into plots/data
schedules: lesson09 lesson11
	@for file in plots/data/schedules/*.csv; do \
	    command=$$(sed -n '1s/^# //p' $$file) && \
	    { echo "# $$command" && $$command; } >$$file.new && mv $$file.new $$file || exit; \
	done

## tables: write the tables of README.md and docs/ from plots/data
tables: setup
	@$(PYTHON) plots/tables.py

## diffNN: show lesson NN against the one before it
diff%:
	@before=$$(ls lessons/lesson$$(printf %02d $$(expr $* - 1))_*.cu) && \
	    git diff --no-index $$before lessons/lesson$*_*.cu; [ $$? -le 1 ]

## format: run clang-format over the sources
format:
	@clang-format -i $(shell find common lessons tests tools -name '*.h' -o -name '*.cuh' -o -name '*.cc' \
	    -o -name '*.cu')

## clean: remove what was built; .venv stays
clean:
	@rm -rf build lesson[0-9][0-9] ptxrun

-include $(wildcard build/*.d build/common/*/*.d build/tests/*/*.d build/tools/*.d \
    build/fuzz/*/*/*.d)
