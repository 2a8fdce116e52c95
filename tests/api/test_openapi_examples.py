"""The examples of the OpenAPI document are real answers, and the document and its examples are valid."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator, validate
from standardwebhooks import Webhook
from tests.api import record_examples

from outcry.api import recorded_examples
from outcry.api.openapi import build_document
from outcry.http.errors import STATUS

DOCUMENT = json.loads(json.dumps(build_document()))
RECORDED = Path(recorded_examples.__file__).with_name("examples.json")


def contents() -> Iterator[tuple[str, dict[str, Any]]]:
    """Return every content with a schema and examples, and where it is."""
    for kind in ("paths", "webhooks"):
        for path, methods in DOCUMENT[kind].items():
            for method, operation in methods.items():
                parts = {"request": operation.get("requestBody", {}), **operation["responses"]}
                for name, part in parts.items():
                    for content in part.get("content", {}).values():
                        yield f"{method} {path} {name}", content
    for name, response in DOCUMENT["components"]["responses"].items():
        yield name, response["content"]["application/json"]


EXAMPLES = [
    (f"{place} {name}", content["schema"], example["value"])
    for place, content in contents()
    for name, example in content.get("examples", {}).items()
]


def operations() -> Iterator[dict[str, Any]]:
    for kind in ("paths", "webhooks"):
        for methods in DOCUMENT[kind].values():
            yield from methods.values()


def test_the_document_is_valid() -> None:
    validate(DOCUMENT, cls=OpenAPIV31SpecValidator)


@pytest.mark.parametrize(("schema", "value"), [row[1:] for row in EXAMPLES], ids=[row[0] for row in EXAMPLES])
def test_every_example_is_valid(schema: dict[str, Any], value: Any) -> None:
    validator = Draft202012Validator(DOCUMENT | schema)
    validator.validate(value)
    changed = value | {next(iter(value)): []}  # so that the test fails if the schema is not applied
    assert not validator.is_valid(changed)


def test_every_answer_and_every_code_has_an_example() -> None:
    without = [place for place, content in contents() if not content.get("examples")]
    # events have no JSON body, and a ticket is secret
    assert without == ["get /api/stream 200", "post /api/stream/ticket 200"]
    names = [place.split(" ") for place, _, _ in EXAMPLES]
    shown = {words[1] for words in names if len(words) == 2}  # those of the error responses
    assert shown == set(STATUS) - {"invalid_request"}  # which only pushes get, and the document has no pushes


def test_the_examples_are_what_a_service_answers() -> None:
    """After an intended change: `make docs`."""
    assert record_examples.recorded().decode() == RECORDED.read_text("utf-8")


def test_every_operation_has_one_tag_and_a_unique_id() -> None:
    found = list(operations())
    tags = [tag["name"] for tag in DOCUMENT["tags"]]
    assert [len(operation["tags"]) for operation in found] == [1] * len(found)
    assert {tag for operation in found for tag in operation["tags"]} == set(tags)
    assert len({operation["operationId"] for operation in found}) == len(found)
    assert all(operation["summary"] for operation in found)


def test_every_error_has_the_same_schema() -> None:
    for response in DOCUMENT["components"]["responses"].values():
        for content in response["content"].values():
            assert content["schema"] == {"$ref": "#/components/schemas/Error"}
        assert len({STATUS[code] for code in response["x-codes"]}) == 1


def test_the_example_of_a_webhook_is_signed() -> None:
    operation = DOCUMENT["webhooks"]["alerts"]["post"]
    headers = {each["name"]: each["example"] for each in operation["parameters"]}
    (example,) = operation["requestBody"]["content"]["application/json"]["examples"].values()
    body = json.dumps(example["value"], separators=(",", ":"), ensure_ascii=False)
    hook = Webhook(record_examples.SECRET)
    # The example is old, and the library accepts the last five minutes only: compare with its own signature.
    at = datetime.fromtimestamp(int(headers["webhook-timestamp"]), UTC)
    assert hook.sign(headers["webhook-id"], at, body) == headers["webhook-signature"]
    assert example["value"]["alerts"][0]["symbol"] == headers["outcry-seq"].partition("=")[0]
