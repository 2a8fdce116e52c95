"""The synchronous client: one method an endpoint, each returning the service's own answer type.

Rule kept: the key goes to the host it was meant for and nowhere else: redirects are not followed, and no
password file is consulted.
"""

from typing import Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import msgspec

from outcry.client.errors import Unreachable, refusal
from outcry.services.answers import (
    Answer,
    ContextAnswer,
    HistoryAnswer,
    LevelsAnswer,
    ProfileAnswer,
    SymbolsAnswer,
)

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

    def context(self, symbol: str) -> ContextAnswer:
        """Everything behind a levels answer."""
        return self._get("context", ContextAnswer, symbol=symbol)

    def _get(self, name: str, answer: type[A], **parameters: str | None) -> A:
        given = {key: value for key, value in parameters.items() if value is not None}
        query = f"?{urlencode(given)}" if given else ""
        request = Request(f"{self._base}/api/{name}{query}", headers=self._headers)  # noqa: S310 - scheme checked
        try:
            with self._opener.open(request, timeout=self._timeout_s) as response:
                body = response.read(_MOST_BYTES)
        except HTTPError as error:
            with error:
                raise refusal(error.code, error.read(_MOST_BYTES)) from None
        except (URLError, OSError, ValueError) as error:
            raise Unreachable(f"{self._base} does not answer: {error}") from error
        try:
            return msgspec.json.decode(body, type=answer)
        except msgspec.DecodeError as error:
            raise Unreachable(f"{self._base} gave no answer of this service: {error}") from error
