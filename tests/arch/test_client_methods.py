"""Both clients have a method for each endpoint of the OpenAPI document, generated from the same table."""

import inspect
import json
from pathlib import Path

import pytest
from tests.arch.client_methods import operations, source

from outcry.client import AsyncClient, Client

ROOT = Path(__file__).parents[2]
PATHS = json.loads((ROOT / "tests/api/openapi.json").read_text())["paths"]
#: Written by hand, because its answer does not end.
BY_HAND = {("GET", "/api/stream")}


def test_the_methods_are_those_of_the_endpoint_table() -> None:
    remedy = "run `make docs`"
    assert (ROOT / "src/outcry/client/endpoints.py").read_text() == source(), remedy


def test_every_operation_has_a_method() -> None:
    documented = {(method.upper(), path) for path, methods in PATHS.items() for method in methods}
    assert documented - BY_HAND == {(row.method, row.path) for row in operations()}


@pytest.mark.parametrize("row", list(operations()), ids=lambda row: row.name)
def test_both_clients_take_the_parameters_of_the_endpoint(row: object) -> None:
    name, parameters = row.name, row.parameters  # type: ignore[attr-defined]
    expected = ["self", *({"from": "first", "to": "last"}.get(each.name, each.name) for each in parameters)]
    for client in (Client, AsyncClient):
        assert list(inspect.signature(getattr(client, name)).parameters) == expected
    assert inspect.iscoroutinefunction(getattr(AsyncClient, name))
    assert not inspect.iscoroutinefunction(getattr(Client, name))


def test_both_clients_have_the_same_public_methods() -> None:
    def names(kind: type) -> set[str]:
        return {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}

    assert names(Client) == names(AsyncClient) >= {"stream", "iter_alerts", "close", "levels"}
