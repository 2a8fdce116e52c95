"""The synchronous client: one method per endpoint, each returning the endpoint's answer type, and the event stream.

The API key is sent to the given host only: redirects are not followed, and `.netrc` is not read.
"""

from collections.abc import Iterator, Mapping
from http.client import HTTPException
from typing import IO, Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import msgspec

from outcry.client.errors import Unreachable, error_from
from outcry.client.stream import IDLE_TIMEOUT_S, StreamEvent, follow
from outcry.wire.alerts import AlertsAnswer, AlertsHistoryAnswer
from outcry.wire.answers import (
    Answer,
    ContextAnswer,
    HistoryAnswer,
    LevelsAnswer,
    ProfileAnswer,
    SymbolsAnswer,
)
from outcry.wire.chart import ChartAnswer

A = TypeVar("A", bound=Answer)
_MAX_BYTES = 64 * 2**20


class _NoRedirects(HTTPRedirectHandler):
    """Rejects redirects: the service never sends one, and the key must not reach another host."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class Client:
    """Reads one service. `url`: its base URL (`https://host[:port][/prefix]`). `timeout_s`: limit of each network
    wait.

    Methods raise `ApiError` if the service returns an error, and `Unreachable` if it does not respond.
    """

    def __init__(self, url: str, key: str, *, timeout_s: float = 10.0, language: str = "en") -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f"{url!r} is not a base URL; expected http(s)://host[:port][/prefix]")
        self._base = url.rstrip("/")
        self._headers = {"x-api-key": key, "accept": "application/json", "accept-language": language}
        self._timeout_s = timeout_s
        self._opener = build_opener(_NoRedirects)

    def levels(self, symbol: str) -> LevelsAnswer:
        """Return the key levels of a symbol."""
        return self._get("levels", LevelsAnswer, symbol=symbol)

    def symbols(self) -> SymbolsAnswer:
        """Return the supported symbols and what this key may read of each."""
        return self._get("symbols", SymbolsAnswer)

    def profile(self, symbol: str, date: str | None = None) -> ProfileAnswer:
        """Return the profile rows of a completed session: that of the given trade date, or the newest."""
        return self._get("profile", ProfileAnswer, symbol=symbol, date=date)

    def history(self, symbol: str, first: str | None = None, last: str | None = None) -> HistoryAnswer:
        """Return the levels of past sessions between two trade dates, both included."""
        return self._get("history", HistoryAnswer, symbol=symbol, **{"from": first, "to": last})

    def chart(self, symbol: str, sessions: int | None = None) -> ChartAnswer:
        """Return the data of a market profile chart: the newest completed sessions, and the open one if it is live."""
        return self._get("chart", ChartAnswer, symbol=symbol, sessions=sessions)

    def context(self, symbol: str) -> ContextAnswer:
        """Return the details behind a levels answer."""
        return self._get("context", ContextAnswer, symbol=symbol)

    def alerts(self, symbol: str | None = None) -> AlertsAnswer:
        """Return the alerts of the current trade date, newest first, of one symbol or all."""
        return self._get("alerts", AlertsAnswer, symbol=symbol)

    def alerts_history(
        self,
        symbol: str | None = None,
        first: str | None = None,
        last: str | None = None,
        *,
        before: int | None = None,
        after: int | None = None,
        limit: int | None = None,
    ) -> AlertsHistoryAnswer:
        """Return alerts between two trade dates (both included) and two `seq` (both excluded), newest first.

        For the next page pass `before=answer.next_before`, which is None on the last page.
        """
        more = {"from": first, "to": last, "before": before, "after": after, "limit": limit}
        return self._get("alerts/history", AlertsHistoryAnswer, symbol=symbol, **more)

    def stream(self, *symbols: str) -> Iterator[StreamEvent]:
        """Yield levels and alerts of the symbols, or of all, as they happen. The iterator never ends.

        It reconnects and resumes with the missed alerts. Raises `ApiError` on a permanent error, and `Unreachable` if
        the first connection fails.
        """
        chosen = {"symbols": ",".join(symbols)} if symbols else {}

        def connect(last_id: str) -> IO[bytes]:
            headers = {"accept": "text/event-stream"} | ({"last-event-id": last_id} if last_id else {})
            return self._open("stream", chosen, IDLE_TIMEOUT_S, headers)

        return follow(connect)

    def _get(self, name: str, answer: type[A], **parameters: str | int | None) -> A:
        try:
            with self._open(name, parameters, self._timeout_s) as response:
                body = response.read(_MAX_BYTES)
        except (OSError, HTTPException) as error:
            raise Unreachable(f"{self._base} does not respond: {error}") from error
        try:
            return msgspec.json.decode(body, type=answer)
        except msgspec.DecodeError as error:
            raise Unreachable(f"{self._base} returned an answer this client cannot read: {error}") from error

    def _open(
        self,
        name: str,
        parameters: Mapping[str, str | int | None],
        timeout_s: float,
        headers: Mapping[str, str] | None = None,
    ) -> IO[bytes]:
        given = {key: value for key, value in parameters.items() if value is not None}
        query = f"?{urlencode(given)}" if given else ""
        url = f"{self._base}/api/{name}{query}"
        request = Request(url, headers={**self._headers, **(headers or {})})  # noqa: S310 - scheme checked
        try:
            return self._opener.open(request, timeout=timeout_s)
        except HTTPError as error:
            with error:
                raise error_from(error.code, error.read(_MAX_BYTES)) from None
        except (URLError, OSError, ValueError, HTTPException) as error:
            raise Unreachable(f"{self._base} does not respond: {error}") from error
