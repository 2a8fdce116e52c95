"""`outcry levels` and `outcry alerts`: read a running service, as any client would."""

import os
import sys
from collections.abc import Callable, Iterator

import msgspec

from outcry.cli.whereabouts import service
from outcry.client import AlertEntry, ApiError, Client, Snapshot, StreamEvent, Unreachable

Answering = Callable[[Client], None]


def levels(symbol: str, *, url: str | None = None, data: str | None = None) -> int:
    """Print the key levels of a symbol as JSON, from a running service.

    The key is read from OUTCRY_KEY, never from the command line, where other users of the machine could see it.

        outcry levels ES | jq .prior.poc

    Parameters
    ----------
    symbol
        ES, ESZ6, MES, /ES …
    url
        The service; otherwise OUTCRY_URL, otherwise the one that runs on the data folder.
    data
        The service's data folder; otherwise OUTCRY_DATA.
    """
    return _ask(url, data, lambda client: _print(client.levels(symbol)))


def alerts(
    symbol: str | None = None, *, follow: bool = False, url: str | None = None, data: str | None = None
) -> int:
    """Print today's alerts as JSON, from a running service; with --follow go on with those that come.

    The key is read from OUTCRY_KEY, never from the command line, where other users of the machine could see it.

        outcry alerts ES --follow | jq -r .message

    Parameters
    ----------
    symbol
        ES, ESZ6, MES, /ES …; all where none is given.
    follow
        One alert a line, oldest first, until interrupted. A lost connection is made again, and no alert is left out.
    url
        The service; otherwise OUTCRY_URL, otherwise the one that runs on the data folder.
    data
        The service's data folder; otherwise OUTCRY_DATA.
    """
    if not follow:
        return _ask(url, data, lambda client: _print(client.alerts(symbol)))

    def told(client: Client) -> None:
        for alert in told_once(client.stream(symbol) if symbol else client.stream()):
            print(msgspec.json.encode(alert).decode(), flush=True)

    return _ask(url, data, told)


def told_once(events: Iterator[StreamEvent]) -> Iterator[AlertEntry]:
    """The alerts of a stream, oldest first, each once: a service that does not know how far we are tells all of
    today's again."""
    seen: set[tuple[str, str]] = set()
    for event in events:
        found: list[AlertEntry] = []
        if isinstance(event, Snapshot):
            found = event.alerts[::-1]
            if event.missed:
                print("outcry: too many alerts were missed to be told of all", file=sys.stderr)
        elif isinstance(event, AlertEntry):
            found = [event]
        for alert in found:
            known = alert.data_source, alert.key
            if known not in seen:
                seen.add(known)
                yield alert


def _print(answer: object) -> None:
    print(msgspec.json.format(msgspec.json.encode(answer)).decode())


def _ask(url: str | None, data: str | None, answering: Answering) -> int:
    key = os.environ.get("OUTCRY_KEY", "")
    if not key:
        print("outcry: set OUTCRY_KEY to an API key (outcry keys create --email …)", file=sys.stderr)
        return 2
    try:
        answering(Client(service(url, data), key))
    except (ApiError, Unreachable, ValueError) as problem:
        print(f"outcry: {problem}", file=sys.stderr)
        return 1
    return 0
