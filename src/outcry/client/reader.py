"""The synchronous client: one method an endpoint, each returning the service's own answer type; and the event stream.

Rule kept: the key goes to the host it was meant for and nowhere else: redirects are not followed, and no
password file is consulted.
"""

from collections.abc import Iterator, Mapping
from http.client import HTTPException
from typing import IO, Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import msgspec

from outcry.answers.alerts import AlertsAnswer, AlertsHistoryAnswer
from outcry.client.errors import Unreachable, refusal
from outcry.client.stream import SILENCE_S, StreamEvent, follow
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
_MOST_BYTES = 64 * 2**20


class _Stay(HTTPRedirectHandler):
    """Follows no redirect: the service never sends one, and the key must not go where one points."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class Client:
    """Asks one service. `url` is its base address (`https://host[:port][/prefix]`), `timeout_s` bounds a wait.

    Raises `ApiError` where the service refuses and `Unreachable` where nothing sensible answers.
    """

    def __init__(self, url: str, key: str, *, timeout_s: float = 10.0, language: str = "en") -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f"{url!r} is no base address of a service")
        self._base = url.rstrip("/")
        self._headers = {"x-api-key": key, "accept": "application/json", "accept-language": language}
        self._timeout_s = timeout_s
        self._opener = build_opener(_Stay)

    def levels(self, symbol: str) -> LevelsAnswer:
        """Key levels of one symbol."""
        return self._get("levels", LevelsAnswer, symbol=symbol)

    def symbols(self) -> SymbolsAnswer:
        """The scan universe and what this key may see of it."""
        return self._get("symbols", SymbolsAnswer)

    def profile(self, symbol: str, date: str | None = None) -> ProfileAnswer:
        """The rows of one completed session, the newest where no trade date is given."""
        return self._get("profile", ProfileAnswer, symbol=symbol, date=date)

    def history(self, symbol: str, first: str | None = None, last: str | None = None) -> HistoryAnswer:
        """The levels of past sessions between two trade dates, both included."""
        return self._get("history", HistoryAnswer, symbol=symbol, **{"from": first, "to": last})

    def chart(self, symbol: str, sessions: int | None = None) -> ChartAnswer:
        """What a market profile chart is drawn from: the newest sessions, and the one open now if it is live."""
        return self._get("chart", ChartAnswer, symbol=symbol, sessions=sessions)

    def context(self, symbol: str) -> ContextAnswer:
        """Everything behind a levels answer."""
        return self._get("context", ContextAnswer, symbol=symbol)

    def alerts(self, symbol: str | None = None) -> AlertsAnswer:
        """Alerts of the current trade date, newest first; of every symbol where none is given."""
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
        """Alerts between two trade dates (both included) and two `seq` (neither), newest first. The next page is
        asked for with `before=answer.next_before`, until that is None."""
        more = {"from": first, "to": last, "before": before, "after": after, "limit": limit}
        return self._get("alerts/history", AlertsHistoryAnswer, symbol=symbol, **more)

    def stream(self, *symbols: str) -> Iterator[StreamEvent]:
        """Levels and alerts of these symbols as they happen, of all where none is given; it never ends by itself.

        A lost connection is made again, and alerts go on where they stopped. Raises `ApiError` where the service
        will not have it, and `Unreachable` where there is none to begin with.
        """
        chosen = {"symbols": ",".join(symbols)} if symbols else {}

        def connect(last_id: str) -> IO[bytes]:
            headers = {"accept": "text/event-stream"} | ({"last-event-id": last_id} if last_id else {})
            return self._open("stream", chosen, SILENCE_S, headers)

        return follow(connect)

    def _get(self, name: str, answer: type[A], **parameters: str | int | None) -> A:
        try:
            with self._open(name, parameters, self._timeout_s) as response:
                body = response.read(_MOST_BYTES)
        except (OSError, HTTPException) as error:
            raise Unreachable(f"{self._base} does not answer: {error}") from error
        try:
            return msgspec.json.decode(body, type=answer)
        except msgspec.DecodeError as error:
            raise Unreachable(f"{self._base} gave no answer of this service: {error}") from error

    def _open(
        self,
        name: str,
        parameters: Mapping[str, str | int | None],
        timeout_s: float,
        headers: Mapping[str, str] | None = None,
    ) -> IO[bytes]:
        given = {key: value for key, value in parameters.items() if value is not None}
        query = f"?{urlencode(given)}" if given else ""
        address = f"{self._base}/api/{name}{query}"
        request = Request(address, headers={**self._headers, **(headers or {})})  # noqa: S310 - scheme checked
        try:
            return self._opener.open(request, timeout=timeout_s)
        except HTTPError as error:
            with error:
                raise refusal(error.code, error.read(_MOST_BYTES)) from None
        except (URLError, OSError, ValueError, HTTPException) as error:
            raise Unreachable(f"{self._base} does not answer: {error}") from error
