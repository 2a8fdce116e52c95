"""Error codes, messages, the OpenAPI document and the pages generated from them agree."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from babel.messages.pofile import read_po
from tests.api.harness import Harness, build_harness, served

import outcry
from outcry.api.endpoints import ENDPOINTS
from outcry.api.openapi import build_document, page
from outcry.base.errors import ServiceError
from outcry.http.errors import STATUS
from outcry.http.errors_page import page as errors_page
from outcry.http.messages import LOCALE_FOLDER, load_catalogue

HERE = Path(__file__).parent
SOURCE = Path(outcry.__file__).parent
PLACE = re.compile(r"\{\w+\}")

#: The codes are frozen. A line may be added here, never changed or removed.
FROZEN = {
    "missing_symbol": 400,
    "invalid_parameter": 400,
    "unauthorized": 401,
    "forbidden": 403,
    "unknown_symbol": 404,
    "not_found": 404,
    "method_not_allowed": 405,
    "no_licensed_source": 409,
    "invalid_request": 422,
    "rate_limited": 429,
    "internal_error": 500,
    "upstream_unavailable": 502,
    "starting": 503,
}


def all_refusals(base: type[ServiceError] = ServiceError) -> list[type[ServiceError]]:
    return [found for child in base.__subclasses__() for found in (child, *all_refusals(child))]


def message_ids() -> set[str]:
    """Return every literal first argument of a refusal or problem in the source."""
    refusals = {refusal.__name__ for refusal in all_refusals()}
    found: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                place = {"Problem": 1}.get(node.func.id, 0 if node.func.id in refusals else None)
                if (
                    place is not None
                    and len(node.args) > place
                    and isinstance(node.args[place], ast.Constant)
                ):
                    found.add(str(node.args[place].value))
    return found


def test_the_codes_are_those_promised() -> None:
    assert STATUS == FROZEN


@pytest.mark.parametrize("refusal", all_refusals())
def test_each_refusal_of_the_services_has_a_status(refusal: type[ServiceError]) -> None:
    assert refusal.code in STATUS


def test_each_message_is_there_in_each_language() -> None:
    catalogue = load_catalogue()
    assert catalogue.languages == ("en", "de")
    ids = message_ids() | set(STATUS) | {f"title.{code}" for code in STATUS}
    assert "invalid_parameter.date" in ids
    for language in catalogue.languages:
        for message_id in ids:
            assert catalogue.text(language, message_id, "", {}) != message_id, (language, message_id)


def messages(language: str) -> dict[str, str]:
    """Return all messages of a language's catalogue, by id."""
    with (LOCALE_FOLDER / language / "messages.po").open("rb") as file:
        return {str(one.id): str(one.string) for one in read_po(file, locale=language) if one.id}


def test_templates_name_the_same_places_in_each_language() -> None:
    english, german = messages("en"), messages("de")
    assert english.keys() == german.keys()
    for message_id, text in english.items():
        assert set(PLACE.findall(text)) == set(PLACE.findall(german[message_id])), message_id


def test_a_value_is_shown_but_never_read_as_a_template() -> None:
    text = load_catalogue().text("en", "unknown_symbol", "", {"symbol": "{symbol.__class__} {0} %s"})
    assert text == "Unknown symbol {symbol.__class__} {0} %s. GET /api/symbols lists the products."


def test_the_document_is_the_one_kept() -> None:
    """After an intended change: `python -m outcry.api.openapi > tests/api/openapi.json`."""
    assert page().decode() == (HERE / "openapi.json").read_text("utf-8")


def test_the_page_about_errors_is_the_one_kept() -> None:
    """After an intended change: `python -m outcry.http.errors_page > docs/reference/errors.md`."""
    assert errors_page(load_catalogue()) == (
        SOURCE.parents[1] / "docs" / "reference" / "errors.md"
    ).read_text("utf-8")


def test_the_document_names_every_endpoint_code_and_field() -> None:
    document = build_document()
    assert document["openapi"] == "3.1.0"
    assert list(document["paths"]) == [
        "/api/levels",
        "/api/alerts",
        "/api/alerts/history",
        "/api/symbols",
        "/api/profile",
        "/api/history",
        "/api/chart",
        "/api/match",
        "/api/presets",
        "/api/context",
        "/api/stream",
        "/api/stream/ticket",
    ]
    assert document["components"]["schemas"]["Error"]["properties"]["code"]["enum"] == sorted(FROZEN)
    assert document["components"]["securitySchemes"]["ApiKey"]["name"] == "x-api-key"
    assert list(document["components"]["schemas"]["HistoryAnswer"]["properties"])[1] == "from"
    assert list(document["components"]["schemas"]["Scenario"]["properties"])[1] == "if"
    assert len(ENDPOINTS) + 2 == len(document["paths"])


def test_the_document_is_served_to_anyone_with_a_tag(harness: Harness) -> None:
    reply = harness.get("/openapi.json")
    assert json.loads(reply.body) == json.loads(msgspec.json.encode(build_document()))
    again = harness.get("/openapi.json", headers={"If-None-Match": reply.headers["etag"]})
    assert (again.status, again.body) == (304, b"")


def test_the_metrics_are_what_prometheus_reads(harness: Harness) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    key = harness.key("free")
    for _ in range(32):
        harness.get("/api/levels?symbol=ES", key)
    families = {
        found.name: found for found in text_string_to_metric_families(harness.get("/metrics").body.decode())
    }
    requests = {
        (sample.labels["route"], sample.labels["status"], sample.labels["tier"]): sample.value
        for sample in families["outcry_http_requests"].samples
    }
    assert requests["/api/levels", "200", "free"] == 30
    assert requests["/api/levels", "429", "free"] == 2
    assert families["outcry_limiter_refusals"].samples[0].value == 2
    assert families["outcry_keys_live"].samples[0].value == 1
    buckets = [
        sample.value
        for sample in families["outcry_http_request_seconds"].samples
        if sample.name.endswith("bucket")
    ]
    assert buckets[-1] == 32
    assert buckets == sorted(buckets)
    assert families["outcry_store_age_seconds"].samples[0].value < 1


def test_schemathesis_finds_nothing() -> None:
    """Run all checks with valid and invalid data over a real socket; advance the clock to avoid rate limits."""
    harness = build_harness()
    with served(harness):
        key = harness.key()
        command = [
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "schemathesis.cli",
            "run",
            f"http://127.0.0.1:{harness.port}/openapi.json",
            "--header",
            f"x-api-key: {key}",
            "--checks",
            "all",
            "--mode",
            "all",
            "--max-examples",
            "25",
            "--seed",
            "20260102",
            "--exclude-path",
            "/api/stream",  # the response has no end
            "--no-color",
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=HERE) as running:
            while running.poll() is None:
                harness.steady.at_ns += 61 * 10**9
                try:
                    running.wait(0.05)
                except subprocess.TimeoutExpired:
                    continue
            assert running.stdout is not None
            output = running.stdout.read().decode()
        assert running.returncode == 0, output
        assert "No issues found" in output, output
    lines = [json.loads(line) for line in harness.log.getvalue().splitlines()]
    statuses = {line["status"] for line in lines if line["event"] == "request"}
    assert {200, 400, 401, 404, 405} <= statuses
    assert max(statuses) < 500
