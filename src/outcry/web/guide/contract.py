"""The OpenAPI document in the form in which the API reference shows it: operations, parameters, response fields.

Names, types and codes come from the document, so the reference matches the service. The templates contain the
descriptions, which are translated.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Given:
    """A request parameter in the API reference. `place`: where it is sent, `query` or `header`."""

    name: str
    place: str
    required: bool
    type: str


@dataclass(frozen=True, slots=True)
class Field:
    """A response field in the API reference. `schema` names the object type of its value; empty for plain values."""

    name: str
    type: str
    options: tuple[str, ...]
    nullable: bool
    schema: str


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation (method and path) in the API reference.

    `answer`: name of the response schema, empty for the event stream. `codes`: status and code of each error.
    `example`: a JSON response, or empty.
    """

    id: str
    method: str
    path: str
    given: tuple[Given, ...]
    answer: str
    codes: tuple[tuple[int, str], ...]
    example: str

    @property
    def anchor(self) -> str:
        """The operation's anchor (URL fragment) on the reference page."""
        return self.path.removeprefix("/api/").replace("/", "-")


class Contract:
    """The OpenAPI document, parsed for the API reference."""

    def __init__(self, document: Json) -> None:
        self._document = document
        self._parts: Json = document["components"]
        self.version = str(document["info"]["version"])
        self.operations = tuple(self._operations())

    def fields(self, schema: str) -> tuple[Field, ...]:
        """Return the fields of a schema, in order."""
        found: Json = self._parts["schemas"][schema].get("properties", {})
        return tuple(_field(name, cast("Json", value)) for name, value in found.items())

    def within(self, schema: str) -> tuple[str, ...]:
        """Return the schemas that a schema uses, including itself, each once, in the order to read them."""
        met: dict[str, None] = {}

        def meet(name: str) -> None:
            if name not in met:
                met[name] = None
                for field in self.fields(name):
                    if field.schema:
                        meet(field.schema)

        meet(schema)
        return tuple(met)

    def _operations(self) -> Iterator[Operation]:
        for path, methods in cast("Mapping[str, Json]", self._document["paths"]).items():
            for method, operation in cast("Mapping[str, Json]", methods).items():
                content: Json = operation["responses"]["200"].get("content", {}).get("application/json", {})
                examples = cast("Mapping[str, Json]", content.get("examples", {}))
                example = next((each["value"] for each in examples.values()), None)
                yield Operation(
                    id=operation["operationId"],
                    method=method.upper(),
                    path=path,
                    given=tuple(_given(each) for each in operation.get("parameters", ())),
                    answer=_referred(content.get("schema", {})),
                    codes=tuple(self._codes(operation["responses"])),
                    example=json.dumps(example, indent=2, ensure_ascii=False) if example else "",
                )

    def _codes(self, responses: Json) -> Iterator[tuple[int, str]]:
        for status, response in responses.items():
            if "$ref" in response:
                found: Json = self._parts["responses"][_last(response["$ref"])]
                for code in cast("Sequence[str]", found["x-codes"]):
                    yield int(status), code


def _given(parameter: Json) -> Given:
    schema: Json = parameter["schema"]
    kind = str(schema.get("format") or schema["type"])
    if "minimum" in schema:
        kind = f"{kind} {schema['minimum']}–{schema['maximum']}"
    return Given(parameter["name"], parameter["in"], bool(parameter.get("required")), kind)


def _field(name: str, schema: Json) -> Field:
    parts = cast("Sequence[Json]", schema.get("anyOf", (schema,)))
    some = [part for part in parts if part.get("type") != "null"]
    nullable = len(some) < len(parts)
    options = tuple(map(str, some[0].get("enum", ()))) if len(some) == 1 else ()
    kinds = dict.fromkeys(_kind(part) for part in some)
    schemas = [found for part in some if (found := _referred(part) or _referred(part.get("items", {})))]
    return Field(name, " | ".join(kinds), options, nullable, schemas[0] if schemas else "")


def _kind(schema: Json) -> str:
    if "$ref" in schema:
        return "object"
    if "enum" in schema or "const" in schema:
        return "string" if isinstance(schema.get("const", "") or schema["enum"][0], str) else "number"
    if schema.get("type") == "array":
        return f"{_kind(schema['items'])}[]" if schema.get("items") else "array"
    return str(schema.get("type", "any"))


def _referred(schema: Json) -> str:
    """Return the name in a schema's `$ref`, which names another schema; empty if it has none."""
    return _last(schema["$ref"]) if "$ref" in schema else ""


def _last(reference: str) -> str:
    return reference.rpartition("/")[2]
