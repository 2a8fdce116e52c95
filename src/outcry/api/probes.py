"""Endpoints outside `/api` that need no key: `/healthz`, `/readyz`, `/metrics` and the OpenAPI document.

Requests to these endpoints do not count toward rate limits. The responses have the same common headers as those of
`/api`.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request as StarletteRequest
from starlette.responses import Response
from starlette.routing import Route

from outcry.api.openapi import build_document
from outcry.base.deferred import Deferred
from outcry.http.auth import is_loopback
from outcry.http.cache import entity_tag, names_etag
from outcry.http.edge import AsgiApp, Edge
from outcry.http.errors import (
    INTERNAL,
    NOT_FOUND,
    STARTING,
    UNAVAILABLE,
    Problem,
    allowed_at,
    method_not_allowed,
)
from outcry.http.metrics import Metrics
from outcry.http.requests import Request

_FORBIDDEN = Problem("forbidden", "forbidden")
_METRICS_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
PROBES = frozenset({"/healthz", "/readyz", "/metrics", "/openapi.json"})


def _load_exposition() -> Callable[[Metrics], bytes]:
    from outcry.http.exposition import exposition  # noqa: PLC0415 - imports Prometheus's library

    return exposition


def build_probes(
    edge: Edge, *, open_metrics: bool, shares_store: bool = False, live: Callable[[], bool] = lambda: True,
    degraded: Mapping[str, Callable[[], bool]] = MappingProxyType({}),
) -> AsgiApp:  # fmt: skip
    """Return the ASGI application for the endpoints that need no key, such as `/healthz`.

    It answers all paths outside `/api` that no page answers. `live`: returns whether the live service, if there is
    one, could start. `degraded`: functions by name of a component; each returns whether that component works only
    partly while requests are still answered. `shares_store`: whether other
    processes use the same database. If so, `/readyz` stays ready while the database is unavailable. Otherwise a proxy
    would remove all processes from service, and clients would not receive our error response.
    """

    def refuse(request: StarletteRequest, problem: Problem) -> Response:
        edge_request: Request = request.scope["outcry.request"]
        rendered = edge.rendered(problem, edge_request)
        body = rendered.body(edge_request.id_bytes)
        response = Response(body, problem.status)
        response.raw_headers = rendered.headers(body)
        return response

    def troubled() -> list[str]:
        return [name for name, is_degraded in degraded.items() if is_degraded()]

    async def health(_request: StarletteRequest) -> Response:
        return _degraded(parts) if (parts := troubled()) else _json(b'{"status":"ok"}')

    async def ready(request: StarletteRequest) -> Response:
        if not edge.poller.started:
            return refuse(request, STARTING)
        fresh = edge.poller.fresh
        if not live() or not (fresh or shares_store):
            return refuse(request, UNAVAILABLE)
        parts = troubled() + ["store"] * (not fresh)
        if parts:  # stay ready, because another process would answer no better
            return _degraded(parts)
        return _json(b'{"status":"ready"}')

    exposition = Deferred(_load_exposition)

    async def metrics(request: StarletteRequest) -> Response:
        if not open_metrics and not is_loopback(request.scope["outcry.request"]):
            return refuse(request, _FORBIDDEN)
        expose = await exposition.loaded()
        return _raw(expose(edge.metrics), _METRICS_TYPE)

    document = msgspec.json.encode(build_document())
    tag = entity_tag(document)

    async def openapi(request: StarletteRequest) -> Response:
        edge_request: Request = request.scope["outcry.request"]
        known = edge_request.if_none_match is not None and names_etag(edge_request.if_none_match, tag)
        response = Response(status_code=304) if known else _raw(document, b"application/json")
        response.raw_headers = [header for header in response.raw_headers if header[0] != b"cache-control"]
        response.raw_headers += [(b"etag", tag), (b"cache-control", b"public, no-cache")]
        return response

    async def on_http_error(request: StarletteRequest, error: Exception) -> Response:
        if not isinstance(error, HTTPException):
            return refuse(request, INTERNAL)
        if error.status_code == 405:
            return refuse(request, method_not_allowed(allowed_at(app.routes, request.scope)))
        return refuse(request, NOT_FOUND)

    app = Starlette(
        routes=[
            Route("/healthz", health),
            Route("/readyz", ready),
            Route("/metrics", metrics),
            Route("/openapi.json", openapi),
        ],
        exception_handlers={HTTPException: on_http_error},
    )
    app.router.redirect_slashes = False  # a redirect would repeat the query, which may contain a key
    return app  # pyright: ignore[reportReturnType] - Starlette types its scope as a mutable mapping


def _degraded(parts: Sequence[str]) -> Response:
    return _json(msgspec.json.encode({"status": "degraded", "parts": sorted(parts)}))


def _json(body: bytes) -> Response:
    return _raw(body, b"application/json")


def _raw(body: bytes, content_type: bytes) -> Response:
    response = Response(body)
    response.raw_headers = [
        (b"content-type", content_type),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
    ]
    return response
