# Needs Python 3.11 with pip, and make. Everything else is installed into .venv.
PYTHON ?= python3.11
PORT ?= 8000
ARGS ?=
EXTRAS ?=
PREFIX ?= $(HOME)/.local
BIN := .venv/bin
INSTALL := $(PYTHON) -m pip --python $(BIN)/python install --quiet --disable-pip-version-check
TEST = $(BIN)/python -m pytest -q -n auto
PIN := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
       --no-emit-index-url --no-header --no-annotate
SHAPE := $(wildcard tests/test_*.py)
REST := $(SHAPE:%=--ignore=%)
UNIT := $(addprefix tests/,core engine manifest tools)
CODE := $(wildcard penstock tests scripts bench examples hatch_build.py)

# A suite starts Python hundreds of times: what one process compiled, the next ones read.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help install run test unit chaos conformance setup blobs check lint types imports shape pages snippets fix bench bench-peers recipes dist fetch layers hops mutants docs site trace pins stress clean

help:               ## Say what each target does.
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1 - /p' $(MAKEFILE_LIST)

install: .venv/base blobs  ## Put the command penstock into ~/.local/bin, as a link to this checkout (PREFIX=~/.local EXTRAS=sheets,google).
	@test -z "$(EXTRAS)" || $(INSTALL) --no-build-isolation --editable '.[$(EXTRAS)]'
	@mkdir -p "$(PREFIX)/bin"
	@ln -sf "$(CURDIR)/$(BIN)/penstock" "$(PREFIX)/bin/penstock"
	@echo "$(PREFIX)/bin/penstock"
	@case ":$$PATH:" in *":$(PREFIX)/bin:"*) ;; \
	*) echo "Not on the PATH of this shell yet: export PATH=\"$(PREFIX)/bin:\$$PATH\"" ;; esac

run: .venv/base blobs  ## Serve the project of examples/ on 127.0.0.1 with the offline model; files that change are taken (PORT=8000).
	@echo "Serving examples/ with the offline model on http://127.0.0.1:$(PORT)"
	@$(BIN)/penstock serve examples --port $(PORT) --watch

test: .venv/dev blobs  ## Run every test: the suite, then its parts, then what starts programs (ARGS= goes to pytest).
	@echo "Running the suite"
	@$(TEST) -k "not postgres" -m "not programs and not chaos and not conformance" $(REST) $(ARGS)
	@echo "Running contracts, promises and wires (marker conformance)"
	@$(TEST) -k "not postgres" -m "conformance and not programs and not chaos" $(REST) $(ARGS)
	@echo "Running crashes, damage and hostile input (marker chaos)"
	@$(TEST) -k "not postgres" -m "chaos and not programs" $(REST) $(ARGS)
	@echo "Running what there is of all three on Postgres"
	@$(TEST) -k postgres -m "not programs" $(REST) $(ARGS)
	@echo "Running what starts or kills programs, or waits for sockets (marker programs)"
	@$(TEST) --dist loadfile -m "programs and not alone and not peers" $(REST) $(ARGS)
	@echo "Running what measures delays, and therefore runs alone (marker alone)"
	@$(BIN)/python -m pytest -q -m alone $(REST) $(ARGS)

unit: .venv/dev blobs  ## Run the tests of core, engine, manifest and tools.
	@$(TEST) $(UNIT) $(ARGS)

conformance: .venv/dev blobs  ## Run the contracts of ports, the promises of pages, the wires by the types of SDKs, what is built.
	@$(TEST) --dist loadfile -m "conformance and not alone and not peers" $(REST) $(ARGS)

chaos: .venv/dev blobs  ## Run crashes at every write, damaged stores and hostile input.
	@$(TEST) --dist loadfile -m chaos $(REST) $(ARGS)

stress: .venv/dev   ## Open new projects from several processes at random offsets, 500 times (ARGS='--rounds N --seed N').
	@$(BIN)/python -m scripts.stress $(ARGS)

setup: .venv/dev blobs  ## Create .venv and install everything that is pinned.

blobs: | .venv/bin/python  ## Fetch the wasm blobs of the sandbox, if they are not there yet.
	@$(BIN)/python scripts/fetch_blobs.py --check 2>/dev/null || $(MAKE) --no-print-directory fetch

fetch: | .venv/bin/python
	@test -n "$(NPM)" || command -v npm >/dev/null || $(INSTALL) --require-hashes -r requirements/blobs.txt
	@$(BIN)/python scripts/fetch_blobs.py

check: lint types imports shape pages snippets  ## Format, lint, types, layers, shape, docs: everything but running the code (-j2: two at once).

lint: .venv/dev
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .

types: .venv/dev
	$(BIN)/mypy $(CODE)

imports: .venv/dev
	$(BIN)/lint-imports --no-logo

shape: .venv/dev
	$(BIN)/python -m pytest -q $(SHAPE)

pages: .venv/dev
	$(BIN)/python -m scripts.docs --check

snippets: .venv/dev
	$(BIN)/python -m scripts.typed_examples

fix: .venv/dev      ## Let ruff repair what it can.
	-$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/dev blobs  ## Measure penstock.
	$(BIN)/python -m bench all

bench-peers: .venv/dev blobs  ## Measure the peers with the same model.
	$(BIN)/python -m bench peers

recipes: .venv/dev  ## Run the recipes of docs/compare.md, those of the peers too, and the wires against a server of others.
	@bench/setup.sh recipes recipes-eval
	@test -n "$(NPM)" || command -v npm >/dev/null || $(INSTALL) --require-hashes -r requirements/blobs.txt
	@$(BIN)/python -m scripts.fetch_aimock
	@$(BIN)/python -m pytest -q -m "programs" tests/journeys/test_recipes.py tests/conformance/test_aimock.py $(ARGS)

mutants: .venv/dev blobs  ## Change the code in one place 300 times, and list what no test of its package notices (hours; ARGS=--again).
	@$(BIN)/python -m scripts.mutants $(ARGS) -- -m "not programs"

dist: .venv/base blobs  ## Build wheel and sdist into dist/, for a release (RELEASING.md).
	@rm -rf dist
	@$(BIN)/python -m hatchling build

layers: .venv/dev   ## Draw the layers: each package, its size and what it imports.
	@$(BIN)/python scripts/layers.py

hops: .venv/dev     ## Count the files that one call and one chat turn go through.
	@$(BIN)/python -m scripts.hops $(ARGS)

docs: .venv/dev     ## Write the generated tables of docs/.
	$(BIN)/python -m scripts.docs

site: .venv/dev     ## Build the documentation as a static site into build/site, and check its links.
	@$(BIN)/python -m scripts.website

trace: .venv/base blobs  ## Call one tool of examples/ and print the hops (ARGS='tool input').
	@$(BIN)/penstock call --project examples --trace $(ARGS)

pins: .venv/dev     ## Compile the pinned requirement files again (ARGS=--upgrade for newer versions).
	$(PIN) $(ARGS) requirements/blobs.in -o requirements/blobs.txt
	$(PIN) $(ARGS) requirements/build.in -o requirements/build.txt
	$(PIN) $(ARGS) pyproject.toml -o requirements/base.txt
	$(PIN) $(ARGS) pyproject.toml --extra dev -c requirements/base.txt -c requirements/build.txt \
	  -o requirements/dev.txt

clean:              ## Remove .venv, caches and what was built.
	rm -rf .venv .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist

.venv/bin/python:
	@echo "Creating .venv"
	@$(PYTHON) -m venv --without-pip .venv

.venv/base: requirements/base.txt requirements/build.txt pyproject.toml penstock/__init__.py | .venv/bin/python
	@echo "Installing what is pinned in requirements/base.txt into .venv"
	@$(INSTALL) --require-hashes -r requirements/build.txt -r requirements/base.txt
	@$(INSTALL) --no-deps --no-build-isolation --no-index --editable .
	@touch $@

.venv/dev: requirements/dev.txt | .venv/base
	@echo "Installing what is pinned in requirements/dev.txt into .venv"
	@$(INSTALL) --require-hashes -r requirements/dev.txt
	@touch $@
