# SPDX-License-Identifier: Apache-2.0
# demo and test need nothing but Go, a C compiler and Python 3.10 or later: each makes its
# own virtual environment from the package index.

PYTHON ?= python3
GO ?= go
VENV := .venv
PY := $(VENV)/bin/python
LIBRARY := python/mast3r_runtime/libmast3r_runtime.$(if $(filter Darwin,$(shell uname -s)),dylib,so)
DARWIN := GOOS=darwin GOARCH=arm64 CC=$(CURDIR)/packaging/darwin/cc.sh
GO_SOURCES := $(shell find capi gomps internal -path capi/pyext -prune -o -name '*.go' -print -o -name '*.s' -print -o -name '*.c' -print -o -name '*.h' -print -o -name '*.map' -print 2>/dev/null) go.mod go.sum capi/build.sh

# Every target with a plain name is a command, not a file.
.PHONY: $(shell sed -n 's/^\([a-z][a-z-]*\):.*/\1/p' $(firstword $(MAKEFILE_LIST)))

demo: $(VENV)/.demo ## build, install, run the demo; pictures and point clouds in out/
	$(VENV)/bin/mast3r demo --out out

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

test: go-test c-test wheel py-test ## everything that must pass before a commit

go-test:
	CGO_ENABLED=0 $(GO) build ./...
	for os in windows darwin; do CGO_ENABLED=0 GOOS=$$os GOARCH=arm64 $(GO) vet ./... || exit 1; done
	$(GO) vet ./...
	$(GO) test ./...

race: ## the tests that start goroutines, under the race detector; needs cgo
	CGO_ENABLED=1 $(GO) test -race -count=1 -timeout 15m ./internal/par ./internal/fault ./internal/newfile ./internal/backend/bufpool \
		./internal/retrieval ./capi
	CGO_ENABLED=1 $(GO) test -race -count=1 -timeout 15m ./gomps -run 'Goroutines|Concurrent|Truncation|Waiting|Detached|Match$$'
	CGO_ENABLED=1 $(GO) test -race -count=1 -timeout 15m ./gomps/tensor -run 'Concurrent|Batches|Cache|Labels'

qemu-test: ## the Go tests for arm64, without cgo, under qemu-user (Debian: qemu-user, libc6-arm64-cross), a package at a time
	CGO_ENABLED=0 GOARCH=arm64 $(GO) test -short -p 1 -timeout 60m -exec 'qemu-aarch64 -L /usr/aarch64-linux-gnu' $$(CGO_ENABLED=0 GOARCH=arm64 $(GO) list $(or $(PACKAGES),./internal/... ./gomps/...) | grep -v -e /metal -e /xla -e /open)

attack: $(VENV)/.test ## attacks for as long as TIME says, with figures: make attack TIME=10m
	$(PY) tests/attack/attack.py $(or $(TIME),10m)

mutants: ## puts the mistakes of tools/mutate/mutants.txt into a copy of the code, one at a time
	$(GO) run ./tools/mutate

c-test: $(LIBRARY)
	sh tests/c/run.sh $(LIBRARY)
	sh tests/c/install.sh
	$(if $(filter Darwin,$(shell uname -s)),,$(MAKE) -C tests/metalsim test) # the simulator is for Linux

workflows: ## the files in .github/workflows, by actionlint
	$(GO) run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

py-test: $(VENV)/.test
	$(PY) -m mypy
	$(PY) -m pytest
	$(VENV)/bin/pip install --quiet --upgrade --no-deps --target build/heif 'pillow-heif>=0.16'
	PYTHONPATH=build/heif $(PY) -m pytest tests/py/test_album.py # HEIC with the extra; all above is without

test-distributed: $(VENV)/.test ## many workers, killed workers and drivers, Dask, an S3 server, the commands of the pages
	$(PY) -m pytest -m distributed -rs -s tests/py/test_distributed.py --kills $(or $(KILLS),20)

many-bench: $(VENV)/.test ## 300 pictures, 10,000 pairs, two workers of which one is killed every two minutes; and retrieval's growth
	$(VENV)/bin/pip install --quiet matplotlib
	rm -rf build/many-bench && $(PY) benchmarks/many_pairs.py
	$(PY) benchmarks/retrieval_growth.py

xla-test: .venv-xla/.ready $(VENV)/.test ## graphs through XLA on the CPU, by the same plugin interface as on an NVIDIA GPU
	.venv-xla/bin/python internal/backend/xla/pjrt/testdata/make.py | diff internal/backend/xla/pjrt/testdata/layout.txt -
	MAST3R_PJRT_CPU=$$(.venv-xla/bin/python -c 'import lammps_jax_pjrt_cpu as p; print(p.PLUGIN_PATH)') sh -c '$(GO) test -count=1 -timeout 20m ./internal/backend/xla/... && $(GO) test -count=1 ./gomps ./gomps/tensor -run CUDA && $(PY) -m pytest tests/py/test_cuda.py'

cuda-test: ## the suites on an NVIDIA GPU; MAST3R_PJRT_CUDA names the plugin where pip has not installed it
	MAST3R_CUDA=1 $(GO) test -count=1 -v ./tests/go/cudatest

cuda-measure: ## what the page on GPUs promises, beside its bounds; small sizes without a GPU, where MAST3R_PJRT_CPU names a plugin
	CGO_ENABLED=0 $(GO) build -o build/cuda-measure/cuda ./benchmarks/cuda
	CGO_ENABLED=0 $(GO) test -c -o build/cuda-measure/cudatest.test ./tests/go/cudatest
	$(PYTHON) benchmarks/cuda/measure.py $(if $(MAST3R_PJRT_CPU),--rehearse)

.venv-xla/.ready: # XLA's plugin for the CPU, and the layouts of its C API as another program reads them
	$(PYTHON) -m venv .venv-xla
	.venv-xla/bin/pip install --quiet lammps-jax-pjrt-cpu==0.11.2 pypjrt==0.1.1
	touch $@

training-test: .venv-bench/.ready ## the tests in training/, which need PyTorch
	.venv-bench/bin/pip install --quiet pytest
	cd training && ../.venv-bench/bin/python -m pytest tests

wheel: $(VENV)/.build ## dist/mast3r_runtime-*.whl
	rm -rf build/wheel build/lib* build/bdist* && $(VENV)/bin/pip wheel --quiet --no-deps --wheel-dir build/wheel .
	mkdir -p dist && cp build/wheel/*.whl dist/ && ls dist/*.whl

wheels: .venv-wheels/.ready ## dist/: the wheels of Linux, macOS and Windows and the sdist, built here by zig and clang, checked
	rm -rf build/wheels && .venv-wheels/bin/python packaging/wheels/build.py --out build/wheels
	.venv-wheels/bin/python packaging/wheels/check.py build/wheels
	mkdir -p dist && cp build/wheels/* dist/

wheels-try: ## installs and tries what make wheels built: here with every Python, under Wine, under qemu
	sh packaging/wheels/try.sh build/wheels

wheels-same: .venv-wheels/.ready ## builds them once more, in a clone elsewhere, and compares the bytes
	sh packaging/wheels/reproducible.sh build/wheels

.venv-wheels/.ready:
	$(PYTHON) -m venv .venv-wheels
	.venv-wheels/bin/pip install --quiet 'ziglang>=0.14' 'setuptools>=77' wheel build auditwheel twine check-wheel-contents licensecheck
	touch $@

install: ## library, headers, pkg-config and CMake files in PREFIX (default /usr/local)
	sh capi/install.sh $(or $(PREFIX),/usr/local)

check: lint test ## lint, then test

# Every generator. A new one gets a line here, and a test that compares what it writes.
generate: ## write every generated file again: after a change of mast3r.h, a table, a kernel, a docstring
	$(GO) test ./tools/bindings -update
	$(GO) test ./internal/graph -run '^TestTable' -update
	$(GO) test ./gomps/tensor -run '^TestOperations' -update
	$(GO) test ./tests/go/metalcost -update
	$(GO) test ./internal/backend/xla/stablehlo -update
	$(GO) generate ./internal/...
	$(GO) run ./tests/metalsim/gen
	$(MAKE) reference

viewer-test: $(VENV)/.test ## the page in a real browser (Debian: apt-get install chromium)
	$(PY) -m pytest tests/py/test_viewer.py

viewer: ## three.js bundled anew from viewer/package-lock.json; needs node and npm
	sh viewer/build.sh python/mast3r_runtime/_output/web/three.js
	cd python/mast3r_runtime/_output/web && sha256sum three.js >three.js.sha256

reference: $(VENV)/.test ## docs/api.md from the docstrings
	$(PY) tools/reference.py >docs/api.md

gopy: $(VENV)/.test ## the library as a Python extension module, and the Python tests against it
	$(VENV)/bin/pip install --quiet pybindgen
	cd capi/pyext && $(GO) test ./...
	sh capi/pyext/build.sh $(PY) python/mast3r_runtime/_gopy
	MAST3R_NATIVE=gopy $(PY) -m pytest

lint: $(VENV)/.test ## gofmt, go vet, ruff, mypy
	@out=$$(gofmt -l $(filter %.go,$(GO_SOURCES)) capi/pyext/*.go tests tools benchmarks); [ -z "$$out" ] || { echo "gofmt: $$out"; exit 1; }
	$(GO) vet ./...
	$(VENV)/bin/ruff check python tests tools docs benchmarks packaging training setup.py
	$(PY) -m mypy

golden: ## every comparison with the reference's numbers, the published sizes too, where ../shared is there
	MAST3R_FULL=1 $(GO) test ./... -run 'Golden|Micro|Mini|Tiny|Trained|Full|Symmetric' -count=1 -timeout 60m

darwin: $(VENV)/.build ## the library and the wheel for macOS on Apple silicon, cross-built with clang and lld, inspected
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 $(GO) vet ./...
	for p in backend/metal/objc backend/metal/device backend/metal/mpsgraph backend/metal backend/cpu match; do \
		CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 $(GO) test -c -o build/darwin/$$(basename $$p).test ./internal/$$p || exit 1; done
	$(DARWIN) sh capi/build.sh build/darwin/libmast3r_runtime.dylib
	MAST3R_DYLIB=$(CURDIR)/build/darwin/libmast3r_runtime.dylib $(GO) test -count=1 ./tests/go/darwin
	rm -rf build/darwin/wheel build/lib* build/bdist* && $(DARWIN) \
		$(VENV)/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir build/darwin/wheel .
	$(PY) packaging/wheels/check.py build/darwin/wheel build/darwin/libmast3r_runtime.dylib
	mkdir -p dist && cp build/darwin/wheel/*.whl dist/

bench: .venv-bench/.ready ## this project beside PyTorch, ONNX Runtime and FAISS, in one run; tables, JSON and plots in build/bench/
	.venv-bench/bin/python benchmarks/bench.py

bench-quick: .venv-bench/.ready ## the same with small sizes and few rounds: that it works
	.venv-bench/bin/python benchmarks/bench.py --quick --out build/bench/quick

bench-ops: $(VENV)/.bench-ops ## eager tensors beside NumPy, in one run; table, JSON and plot in build/bench/
	$(PY) benchmarks/ops.py

scene-bench: $(VENV)/.bench-scene ## scenes beside pycolmap fed by OpenCV's SIFT, with their bounds; table in build/scene-bench/
	$(PY) benchmarks/scene.py

# Threads of OpenMP that wait spin for a moment, or sleep at once: PyTorch gets its turn with both. ACTIVE would take a core from ours.
views-bench: .venv-bench/.ready ## Depth Anything 3 beside PyTorch, and the memory of eight views; tables in build/views-bench/
	.venv-bench/bin/python benchmarks/views.py --memory-views 0 --out build/views-bench/spinning
	OMP_WAIT_POLICY=PASSIVE .venv-bench/bin/python benchmarks/views.py --out build/views-bench/sleeping

bench-go: ## Go benchmarks of the kernels
	$(GO) test ./... -run '^$$' -bench . -benchtime 1x

.venv-bench/.ready: $(LIBRARY)
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/pip install --quiet --editable . torch onnxruntime matplotlib safetensors
	-.venv-bench/bin/pip install --quiet faiss-cpu
	touch $@

match-bench: $(VENV)/.bench-match ## matches, poses and verdicts beside OpenCV's SIFT and MAGSAC; table and plot in build/match-bench/
	$(PY) benchmarks/pairs.py

clean:
	rm -rf build dist out $(VENV) *.egg-info python/*.egg-info $(LIBRARY)

$(LIBRARY): $(GO_SOURCES)
	sh capi/build.sh $@

$(VENV)/bin/pip:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.build: $(VENV)/bin/pip pyproject.toml
	$(VENV)/bin/pip install --quiet 'setuptools>=77' wheel && touch $@

$(VENV)/.bench-ops: $(LIBRARY) $(VENV)/.build
	$(VENV)/bin/pip install --quiet --editable . matplotlib && touch $@

$(VENV)/.bench-scene: $(LIBRARY) $(VENV)/.build
	$(VENV)/bin/pip install --quiet --editable '.[demo,scene]' opencv-python-headless && touch $@

$(VENV)/.bench-match: $(LIBRARY) $(VENV)/.build
	$(VENV)/bin/pip install --quiet --editable '.[demo]' opencv-python-headless matplotlib && touch $@

$(VENV)/.demo: $(LIBRARY) $(VENV)/.build
	$(VENV)/bin/pip install --quiet --editable '.[demo,scene]' || $(VENV)/bin/pip install --quiet --editable '.[demo]' # where pycolmap has no wheel
	touch $@

$(VENV)/.test: $(LIBRARY) $(VENV)/.build
	$(VENV)/bin/pip install --quiet --editable '.[demo,scene,sift,viewer,test]' || $(VENV)/bin/pip install --quiet --editable '.[demo,test]'
	touch $@
