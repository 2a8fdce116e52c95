# `make` lists the commands. The first use creates .venv, which needs Python 3.11 or later and a network.
PYTHON ?= python3
SIM_KILLS ?= 200
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
COMPILED := build/compiled
# `make bench install` runs the bench of that name: what follows `bench` names benches, not targets.
ifeq ($(firstword $(MAKECMDGOALS)),bench)
BENCH += $(wordlist 2,$(words $(MAKECMDGOALS)),$(MAKECMDGOALS))
OTHER_NAMES := $(filter-out bench install,$(MAKECMDGOALS))
endif

help:            ## list the commands
	@sed -n 's/^\([a-z]*\): *.*## /make \1\t/p' $(MAKEFILE_LIST)

$(READY): pyproject.toml requirements/dev.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Outcry needs Python 3.11 or later: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV) || { echo "python3 -m venv failed: on Debian, apt-get install python3-venv" >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

# Write one lock file: the versions of constraints.txt with the hashes of all their files, for every platform.
define LOCK
$(BIN)/uv pip compile --quiet --system-certs --universal --python-version 3.11 --generate-hashes --no-build \
	--no-annotate --custom-compile-command 'make lock' --constraint constraints.txt
endef

lock:            ## write the lock files in requirements/ after a change of pyproject.toml or constraints.txt
	@test -x $(BIN)/uv || $(PYTHON) -m venv $(VENV)
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt uv
	$(LOCK) pyproject.toml --all-extras --group dev --group docs --group build --group bench --output-file requirements/dev.txt
	$(LOCK) pyproject.toml --extra serve --extra files --extra cluster --extra databento --extra ibkr --extra massive --extra projectx \
		--output-file requirements/deploy.txt
	$(LOCK) --group build --output-file requirements/build.txt

install: $(READY)  ## create .venv with pinned versions

compiled: $(READY)  ## compile the hot modules in place, to try them; `make pure` undoes it
	COMPILE_OUTCRY=1 $(BIN)/python setup.py --quiet build_ext --inplace
	@find src -name '*.so' -exec touch {} +  # newer than the sources, which the tests check

pure:            ## remove what `make compiled` built
	@find src -name '*.so' -delete

wheel: $(READY)  ## build the source distribution and two wheels in dist/: compiled for this platform, and pure Python
	$(BIN)/python -c 'from pathlib import Path; from support.wheel import build_release; build_release(Path("dist"))'
	$(BIN)/python -c 'from setuptools.build_meta import build_sdist; build_sdist("dist")'

run: $(READY) pure    ## run the demo on http://localhost:8000
	$(BIN)/outcry serve --demo

browser:         ## install Chromium, curl, wrk, nginx, zsh, fish and a C compiler (Debian packages) for tests and benchmarks
	@missing=; \
	command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || missing=" chromium"; \
	command -v curl >/dev/null || missing="$$missing curl"; \
	command -v wrk >/dev/null || missing="$$missing wrk"; \
	command -v nginx >/dev/null || missing="$$missing nginx-light"; \
	command -v zsh >/dev/null || missing="$$missing zsh"; \
	command -v fish >/dev/null || missing="$$missing fish"; \
	command -v cc >/dev/null || missing="$$missing gcc libc6-dev"; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	else \
		echo "tests and benches need:$$missing; on Debian, apt-get install $$missing" >&2; exit 1; \
	fi

test: $(READY) pure browser  ## run all checks and tests
	$(MAKE) --no-print-directory check
	$(BIN)/pytest -n 4 --dist loadfile  # on two cores too: much of the time tests wait for servers

quick: $(READY) pure  ## check format, lint, imports and types of changed files, test the pure packages: one minute
	$(BIN)/ruff format --check src tests support bench sim tools
	$(BIN)/ruff check src tests support bench sim tools
	$(BIN)/lint-imports
	files=$$(git diff --name-only --diff-filter=d HEAD -- src sim bench support | grep '\.py$$'); [ -z "$$files" ] || $(BIN)/pyright $$files
	$(BIN)/pytest -n 2 tests/base tests/market tests/trades tests/access tests/library

soak: $(READY) pure  ## run the long tests before a release: damaged files, kills, a simulated cluster
	$(BIN)/pytest -n 2 -m soak
	$(MAKE) --no-print-directory sim

fuzz: $(READY)   ## run the property tests with new examples
	$(BIN)/pytest -n 2 -m hypothesis --hypothesis-profile=fresh

sim: $(READY)    ## simulate a cluster with random kills and stalls: SIM_KILLS=200, SIM_SEED; see python -m sim --help
	$(BIN)/python -m sim --kills $(SIM_KILLS) $(if $(SIM_SEED),--seed $(SIM_SEED))

check: $(READY)  ## check format, lint, types, imports
	$(BIN)/ruff format --check src tests support bench sim tools
	$(BIN)/ruff check src tests support bench sim tools
	$(BIN)/pyright
	$(BIN)/mypy
	$(BIN)/lint-imports

$(COMPILED)/.ready: $(shell find src -name '*.py' -o -name '*.c') pyproject.toml setup.py | $(READY)
	$(BIN)/python -m support.wheel $(COMPILED)
	@touch $@

bench: $(READY) browser $(COMPILED)/.ready pure  ## compare with peers and limits, in both forms: make bench http; BENCH="--quick http live"
	$(BIN)/python -m bench $(BENCH) --json build/pure.json
	PYTHONPATH=$(CURDIR)/$(COMPILED) $(BIN)/python -m bench $(BENCH) --table --json build/compiled.json
	$(BIN)/python -m bench.report build/pure.json build/compiled.json

ifdef OTHER_NAMES
$(OTHER_NAMES): bench
	@:
.PHONY: $(OTHER_NAMES)
endif

format: $(READY) ## format, and fix what ruff can fix
	$(BIN)/ruff format src tests support bench sim tools
	$(BIN)/ruff check --fix src tests support bench sim tools

words: $(READY)  ## list wording to edit and long sentences, never fails: PLACES="docs README.md", FLAGS=--count
	$(BIN)/python tools/words.py $(FLAGS) $(PLACES)

site: $(READY)   ## build the documentation site in build/site; every warning is an error
	$(BIN)/zensical build --clean --strict

docs: $(READY)   ## regenerate the generated pages and pictures, and the OpenAPI snapshot
	$(BIN)/python tests/arch/settings_page.py > docs/reference/settings.md
	$(BIN)/python -m tests.arch.alerts_page > docs/reference/alerts.md
	$(BIN)/python -m tests.arch.connections_page > docs/reference/connections.md
	$(BIN)/python tests/arch/logs_page.py > docs/reference/logs.md
	@mkdir -p build
	$(BIN)/python tests/arch/client_methods.py > build/endpoints.py && mv build/endpoints.py src/outcry/client/endpoints.py
	$(BIN)/python -m outcry.http.errors_page > docs/reference/errors.md
	$(BIN)/python tests/arch/decisions_page.py > docs/decisions/index.md
	$(BIN)/python -m tools.docs_pictures
	$(BIN)/python tests/arch/llms_page.py > docs/llms.txt
	$(BIN)/python -m tests.api.record_examples > build/examples.json && mv build/examples.json src/outcry/api/examples.json
	$(BIN)/python -m outcry.api.openapi > tests/api/openapi.json

clean: pure      ## remove .venv, caches and builds
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis build dist

.PHONY: help install compiled pure wheel lock run browser test quick soak fuzz sim check bench format words docs site clean
