"""The import rules hold, and a case breaks each of them.

The rules are `[tool.importlinter]` in `pyproject.toml`, which `make check` runs. Each case adds one forbidden import to
the graph of all imports and expects the rule of that name, and no other, to be broken.
"""

import copy
import tomllib
from pathlib import Path
from typing import Any

import grimp
import pytest
from importlinter import configuration
from importlinter.contracts.acyclic_siblings import AcyclicSiblingsContract
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.contracts.layers import LayersContract
from importlinter.domain.contract import Contract

ROOT = Path(__file__).parents[2]
OPTIONS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
CLASSES: dict[str, type[Contract]] = {
    "layers": LayersContract, "forbidden": ForbiddenContract, "acyclic_siblings": AcyclicSiblingsContract
}  # fmt: skip

LAYERS = "Packages import only from packages below them"
PURE = "market touches no clock, chance, file, thread or socket"
NUMPY = "numpy stays in the kernels of market"
ENGINES = "Only database imports database engines, only cluster imports NATS"
FRAMEWORK = "Only http, api and web import the web framework"
FORMATS = "Answers and surfaces read no file format and no SQL"
BROKERS = "Only feeds imports the libraries of brokers"
CLIENT = "client imports nothing of the server: only wire and base"
ACYCLIC = "No cycles between siblings"

#: The rule, the importing module, and the imported one: a module of `outcry` or a library.
BREACHES = [
    (PURE, "market.units", "time"),
    (PURE, "market.ladder", "random"),
    (PURE, "market.reference", "pathlib"),
    (PURE, "market.profile", "sqlalchemy"),
    (NUMPY, "market.profile", "numpy"),
    (ENGINES, "sessions.store", "sqlite3"),
    (ENGINES, "live.engine", "nats"),
    (FRAMEWORK, "answers.query", "starlette"),
    (FORMATS, "answers.query", "pyarrow"),
    (FORMATS, "api.endpoints", "sqlalchemy"),
    (BROKERS, "connections.feed_factory", "ib_async"),
    (LAYERS, "base.clock", "outcry.market.units"),
    (LAYERS, "wire.answers", "outcry.market.units"),
    (LAYERS, "market.fold", "outcry.trades.records"),
    (LAYERS, "trades.feed", "outcry.access.tiers"),
    (LAYERS, "database.schema", "outcry.access.tiers"),
    (LAYERS, "access.keys", "outcry.people.audit"),
    (LAYERS, "people.store", "outcry.sessions.store"),
    (LAYERS, "sessions.store", "outcry.recordings.tape"),
    (LAYERS, "recordings.importing", "outcry.live.model"),
    (LAYERS, "live.engine", "outcry.answers.query"),
    (LAYERS, "live.store", "outcry.delivery.fan_out"),
    (LAYERS, "answers.query", "outcry.delivery.model"),
    (LAYERS, "delivery.outbox", "outcry.connections.model"),
    (LAYERS, "connections.supervisor", "outcry.feeds.adapters"),
    (LAYERS, "feeds.shared_session", "outcry.http.errors"),
    (LAYERS, "http.server", "outcry.api.app"),
    (LAYERS, "web.app", "outcry.api.endpoints"),
    (LAYERS, "api.endpoints", "outcry.web.app"),
    (LAYERS, "client.sync_client", "outcry.agent.pusher"),
    (LAYERS, "feeds.pushed", "outcry.cluster.calls"),
    (LAYERS, "agent.agent", "outcry.cluster.calls"),
    (LAYERS, "cluster.calls", "outcry.app.settings"),
    (LAYERS, "app.settings", "outcry.cli"),
    (CLIENT, "client.stream", "outcry.answers.streaming"),
    (CLIENT, "client.sync_client", "outcry.market.units"),
    (ACYCLIC, "market.ladder", "outcry.market.profile"),
    (ACYCLIC, "feeds.shared_session", "outcry.feeds.massive.transport"),
    (ACYCLIC, "recordings.formats.decoder_errors", "outcry.recordings.formats.file_library"),
    (ACYCLIC, "live.stream", "outcry.live.runner"),
]


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    """Return the graph of all imports, libraries included; imports for types only if the rules include them."""
    configuration.configure()
    return grimp.build_graph(
        "outcry",
        include_external_packages=OPTIONS["include_external_packages"],
        exclude_type_checking_imports=OPTIONS.get("exclude_type_checking_imports", False),
        cache_dir=None,
    )


def broken(graph: grimp.ImportGraph) -> set[str]:
    """Return the names of the rules that a graph breaks."""
    session = {"root_packages": [OPTIONS["root_package"]], **OPTIONS}
    found: set[str] = set()
    for options in OPTIONS["contracts"]:
        chosen: dict[str, Any] = {
            key: str(value)
            if isinstance(value, bool)
            else value  # in the same form as the linter's own TOML reader
            for key, value in options.items()
            if key not in {"id", "name", "type"}
        }
        contract = CLASSES[options["type"]](options["name"], session, chosen)
        if not contract.check(copy.deepcopy(graph), verbose=False).kept:
            found.add(options["name"])
    return found


def test_the_rules_hold(graph: grimp.ImportGraph) -> None:
    assert broken(graph) == set()


@pytest.mark.parametrize(("rule", "importer", "imported"), BREACHES)
def test_a_breach_is_named(graph: grimp.ImportGraph, rule: str, importer: str, imported: str) -> None:
    changed = copy.deepcopy(graph)
    assert f"outcry.{importer}" in changed.modules
    if imported.startswith("outcry."):
        assert imported in changed.modules
    elif imported not in changed.modules:
        changed.add_module(imported, is_squashed=True)
    changed.add_import(importer=f"outcry.{importer}", imported=imported)
    # An import from a higher package closes a cycle as well.
    assert rule in broken(changed)
    assert broken(changed) <= {rule, ACYCLIC}


def test_a_package_in_no_layer_is_named(graph: grimp.ImportGraph) -> None:
    changed = copy.deepcopy(graph)
    changed.add_module("outcry.utils")
    assert broken(changed) == {LAYERS}


def test_every_rule_has_a_case() -> None:
    rules = {contract["name"] for contract in OPTIONS["contracts"]}
    assert rules == {rule for rule, _, _ in BREACHES}


def test_the_client_rule_names_every_package_below_the_client() -> None:
    contracts = {contract["name"]: contract for contract in OPTIONS["contracts"]}
    layers = contracts[LAYERS]["layers"]
    below = {name for layer in layers[layers.index("client") + 1 :] for name in layer.split(" | ")}
    assert set(contracts[CLIENT]["forbidden_modules"]) == {
        f"outcry.{name}" for name in below - {"wire", "base"}
    }
