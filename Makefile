# make demo: all steps on the sample catalog · make test: the tests
# make serve: the demo's retriever as a service with a page for shoppers; PORT=8001 for another port
# make check: ruff, mypy, and whether docs/results is up to date
# make hostile: about 10,000 damaged and hostile inputs, under 30 minutes; SEED=1 for others, KILLS=200 for more kills
# make mutants: are small bugs noticed by the tests? hours; SAMPLE=100 for fewer, SEED=1 for others
# make bench: speed compared with plain implementations, about an hour; STAGE=ranks for one stage, BENCH='--threads 1' for options
# make docs: the documentation site in site/
# make release: wheel and source distribution in dist/
# make bench-test: the tests of the benchmarks, which make test leaves out
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
FAISS := $(shell nvidia-smi >/dev/null 2>&1 && echo gpu || echo cpu)
DEMO := demo
PORT ?= 8000
SEED ?= 0
SAMPLE ?= 400
KILLS ?= 40

# small models are as fast on one core; on a busy machine two threads are slower
demo test hostile bench-test: export OMP_NUM_THREADS ?= 1
# bytecode is cached, so that workers and their subprocesses compile each module once
test: export PYTHONDONTWRITEBYTECODE =

.PHONY: demo serve test check hostile mutants bench bench-test docs release clean

# pip asks rustc for its version, whose launcher would otherwise make ~/.rustup
$(VENV)/ready: export RUSTUP_HOME = $(CURDIR)/$(VENV)/rustup
$(VENV)/ready: setup.cfg pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: Python 3.11 or newer is needed: make PYTHON=python3.11"; exit 2; }
	@echo 'Installing torch, faiss-$(FAISS), transformers, diffusers and about 100 other packages into $(VENV) (about 4 min)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check --constraint constraints.txt --editable '.[$(FAISS:cpu=milvus-lite),chat,generate,dev]'
	touch $@

demo: $(VENV)/ready
	$(BIN)/python run_demo.py
	@echo; echo 'Next, search the sample catalog yourself: $(BIN)/fashioniq chat --run demo/runs/retriever'

serve: $(VENV)/ready
	@test -e $(DEMO)/runs/retriever/model.json || $(MAKE) demo
	$(BIN)/fashioniq serve --run $(DEMO)/runs/retriever --predictor $(DEMO)/runs/attributes-dresses \
		--database sqlite:///$(DEMO)/service.db --port $(PORT)

# two workers, as CI has two cores; the tests of a file share fixtures and run in one worker
test: $(VENV)/ready
	$(BIN)/python -m pytest -n 2 --dist loadfile

check: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python tools/build_results.py --check
	$(BIN)/python tools/build_api.py --check

hostile: $(VENV)/ready
	$(BIN)/python -W ignore tests/hostile/run.py --seed $(SEED) --kills $(KILLS) --log hostile.jsonl

mutants: $(VENV)/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt cosmic-ray coverage
	nice $(BIN)/python tests/mutants/run.py --sample $(SAMPLE) --seed $(SEED)

bench: $(VENV)/ready
	$(BIN)/python benchmarks/speed.py $(if $(STAGE),--stage $(STAGE)) $(BENCH)

bench-test: $(VENV)/ready
	$(BIN)/python -m pytest benchmarks

docs: export NO_MKDOCS_2_WARNING = 1
docs: $(VENV)/ready
	$(BIN)/python -m mkdocs build --strict

release: $(VENV)/ready
	$(BIN)/python -m build

clean:
	rm -rf $(VENV) $(DEMO) build dist site hostile.jsonl mutants *.egg-info .pytest_cache .mypy_cache .ruff_cache
