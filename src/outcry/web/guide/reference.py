"""The API reference, and a page for each error code.

Operations and fields come from the OpenAPI document; only their descriptions are in the templates. Tests run the
examples that these pages show.
"""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, get_args

import msgspec
from starlette.responses import Response

from outcry.access.keys import KeyRefusal
from outcry.access.tiers import REQUESTS_ALLOWED, STREAMS_ALLOWED, Tier
from outcry.http.errors import (
    JSON_TYPE,
    STATUS,
    Problem,
    method_not_allowed,
    rate_limited,
    render,
    unauthorized,
)
from outcry.http.messages import Catalogue, load_catalogue
from outcry.web.guide.contract import Contract
from outcry.web.page_context import Page, PageContext, PageMissing, PageRequest

SAMPLES = Path(__file__).parents[1] / "templates" / "reference" / "samples"
#: In display order: language and file.
VERIFIERS = (("Python", "webhook.py"), ("JavaScript", "webhook.mjs"), ("Go", "webhook.go"))
#: An example error for each code with extra fields in its body.
EXAMPLES: Mapping[str, Problem] = {
    "invalid_parameter": Problem("invalid_parameter", "invalid_parameter.date", {"parameter": "date"}),
    "unauthorized": unauthorized(KeyRefusal.MISSING),
    "forbidden": Problem("forbidden", "forbidden.needs_read"),
    "unknown_symbol": Problem("unknown_symbol", "unknown_symbol", {"symbol": "ESX", "suggestions": ["ES"]}),
    "not_found": Problem("not_found", "not_found.session", {"symbol": "ES", "date": "2026-01-03"}),
    "method_not_allowed": method_not_allowed(("GET", "HEAD")),
    "no_licensed_source": Problem(
        "no_licensed_source",
        "no_licensed_source",
        {"symbol": "ES", "reasons": ["no_connection", "not_granted"]},
    ),
    "invalid_request": Problem("invalid_request", "invalid_request", {"reason": "hole", "next": 412}),
    "rate_limited": rate_limited(8250, 30, "free"),
}


async def docs(context: PageContext, request: PageRequest) -> Response:
    """Show the API reference."""
    contract = contract_of(context.services.openapi)
    answers = [operation.answer for operation in contract.operations if operation.answer]
    events = ("Snapshot", "Quote", "AlertEntry", "State")
    met = dict.fromkeys(name for root in (*answers, *events) for name in contract.within(root))
    return context.page(
        request,
        "reference/docs.html",
        contract=contract,
        objects=[name for name in met if name not in answers],
        base=base_of(context, request),
        limits=[(tier, REQUESTS_ALLOWED[tier], STREAMS_ALLOWED[tier]) for tier in get_args(Tier)],
        verifiers=verifiers(),
    )


async def errors(context: PageContext, request: PageRequest) -> Response:
    """Show the reference of all error codes."""
    return context.page(request, "reference/errors.html", statuses=STATUS)


async def error(context: PageContext, request: PageRequest) -> Response:
    """Show one error code: meaning, cause and fix."""
    code = request.http.path_params["code"]
    if code not in STATUS:
        raise PageMissing
    problem = EXAMPLES.get(code) or Problem(code, code)
    rendered = render(problem, _catalogue(), request.words.language, JSON_TYPE)
    body = rendered.body(b"01JGK3Z5Q0W7")
    headers = rendered.headers(body)
    shown = [(name.decode(), value.decode()) for name, value in headers if name in _TELLING]
    return context.page(
        request,
        "reference/code.html",
        code=code,
        refused_with=STATUS[code],
        headers=shown,
        body=_spread(body),
    )


_TELLING = frozenset((b"www-authenticate", b"retry-after", b"allow"))


def _spread(body: bytes) -> str:
    return msgspec.json.format(body, indent=2).decode()


def base_of(context: PageContext, request: PageRequest) -> str:
    """Return the base URL under which the reader reaches this service, without a trailing slash."""
    return context.services.public_url.rstrip("/") or str(request.http.base_url).rstrip("/")


@cache
def contract_of(openapi: Callable[[], dict[str, Any]]) -> Contract:
    """Return the parsed OpenAPI document, read once."""
    return Contract(openapi())


@cache
def verifiers() -> tuple[tuple[str, str], ...]:
    """Return the examples that verify a webhook's signature: language and source code of each."""
    return tuple((name, (SAMPLES / file).read_text(encoding="utf-8")) for name, file in VERIFIERS)


@cache
def _catalogue() -> Catalogue:
    return load_catalogue()


PAGES: tuple[Page, ...] = (
    ("/docs", ("GET",), docs),
    ("/errors", ("GET",), errors),
    ("/errors/{code}", ("GET",), error),
)
