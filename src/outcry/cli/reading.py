"""`outcry levels` and `outcry alerts`: read from a running service over its HTTP API."""

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, cast

import msgspec

from outcry.answers.wording import state_text
from outcry.cli.whereabouts import service
from outcry.client import AlertEntry, ApiError, Client, Snapshot, StreamEvent, Unreachable

Answering = Callable[[Client], None]

#: Messages for the `reasons` of `no_licensed_source`. Any other reason is the state of a feed.
_REASONS = {
    "no_connection": "No live feed is connected for {symbol}.",
    "embargo": "Completed sessions of {symbol} are under embargo. The first one is released at {until}.",
    "not_granted": "No grant gives this key access to completed sessions of {symbol}.",
    "no_completed_session": "No completed session of {symbol} has been imported or recorded.",
}


def levels(symbol: str, *, url: str | None = None, data: str | None = None) -> int:
    """Print the key levels of a symbol as JSON, from a running service.

    Set OUTCRY_KEY to your API key. There is no option for it, because other users of the machine can see arguments.

        outcry levels ES | jq .prior.poc

    Parameters
    ----------
    symbol
        Product or contract: ES, ESZ6, MES, /ES …
    url
        URL of the service. Default: OUTCRY_URL, or the service that runs on the data folder.
    data
        Data folder of the service. Default: OUTCRY_DATA.
    """
    return _ask(url, data, lambda client: _print(client.levels(symbol)))


def alerts(
    symbol: str | None = None, *, follow: bool = False, url: str | None = None, data: str | None = None
) -> int:
    """Print today's alerts as JSON, from a running service. With --follow, also print new alerts as they fire.

    Set OUTCRY_KEY to your API key. There is no option for it, because other users of the machine can see arguments.

        outcry alerts ES --follow | jq -r .message

    Parameters
    ----------
    symbol
        Product or contract: ES, ESZ6, MES, /ES … Default: all symbols.
    follow
        Print one alert per line, oldest first, until interrupted. Reconnects automatically and then prints missed
        alerts.
    url
        URL of the service. Default: OUTCRY_URL, or the service that runs on the data folder.
    data
        Data folder of the service. Default: OUTCRY_DATA.
    """
    if not follow:
        return _ask(url, data, lambda client: _print(client.alerts(symbol)))

    def print_alerts(client: Client) -> None:
        for alert in unique_alerts(client.stream(symbol) if symbol else client.stream()):
            print(msgspec.json.encode(alert).decode(), flush=True)

    return _ask(url, data, print_alerts)


def unique_alerts(events: Iterator[StreamEvent]) -> Iterator[AlertEntry]:
    """Yield the alerts of a stream once each, oldest first.

    After a reconnect the service may send all alerts of the day again.
    """
    seen: set[tuple[str, str]] = set()
    for event in events:
        found: list[AlertEntry] = []
        if isinstance(event, Snapshot):
            found = event.alerts[::-1]
            if event.missed:
                print(
                    "outcry: Some alerts are missing: too many fired while disconnected. Run `outcry alerts` for all "
                    "of today's.",
                    file=sys.stderr,
                )
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
        print(
            "outcry: OUTCRY_KEY is not set. Set it to an API key (`outcry keys create --email …` creates one).",
            file=sys.stderr,
        )
        return 2
    base = service(url, data)
    try:
        answering(Client(base, key))
    except ApiError as problem:
        print(f"outcry: {explained(problem, base)}", file=sys.stderr)
        return 1
    except (Unreachable, ValueError) as problem:
        print(f"outcry: {problem}", file=sys.stderr)
        return 1
    return 0


def explained(problem: ApiError, base: str) -> str:
    """Return the message of an error; for `no_licensed_source`, list its reasons and remedies.

    base: the service's URL, which the paths in `fix` are relative to.
    """
    body = problem.body
    if problem.code != "no_licensed_source":
        return str(problem)
    symbol = str(body.get("symbol", "this symbol"))
    lines = [f"No data for {symbol} ({problem.code})."]
    reasons = [str(reason) for reason in _list(body.get("reasons"))]
    for reason in reasons:
        sentence = _REASONS.get(reason) or f"The live feed of {{symbol}} is `{reason}`: {state_text(reason)}"
        lines.append(
            f"  - {sentence.format(symbol=symbol, until=body.get('embargo_until', 'an unknown time'))}"
        )
    lines.append("To fix this:")
    if "no_completed_session" in reasons:
        lines.append("  - Import a recording: outcry import FILE")
    if "not_granted" in reasons:
        lines.append("  - Ask the operator for access, or as the operator: outcry grants add --help")
    fix = body.get("fix")
    paths = cast("dict[str, Any]", fix) if isinstance(fix, dict) else {}
    for name, label in (
        ("brokerGuide", "Connect a live feed"),
        ("account", "See what your account can access"),
    ):
        if name in paths:
            lines.append(f"  - {label}: {base.rstrip('/')}{paths[name]}")
    return "\n".join(lines)


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []
