"""`outcry levels` and `outcry alerts`: read from a running service over its HTTP API."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import msgspec

from outcry.answers.wording import state_text
from outcry.cli import tables
from outcry.cli.columns import ALERTS, FOLLOWED, LEVELS
from outcry.cli.tables import Cell, Output, csv_line, print_rows
from outcry.cli.whereabouts import service
from outcry.client import AlertEntry, ApiError, Client, Snapshot, StreamEvent, Unreachable
from outcry.client.errors import NotOutcry
from outcry.wire.alerts import AlertsAnswer
from outcry.wire.answers import LevelsAnswer

Answering = Callable[[Client], None]

#: Messages for the `reasons` of `no_licensed_source`. Any other reason is the state of a feed.
_REASONS = {
    "no_connection": "No live feed is connected for {symbol}.",
    "embargo": "Completed sessions of {symbol} are under embargo. The first one is released at {until}.",
    "not_granted": "No grant gives this key access to completed sessions of {symbol}.",
    "no_completed_session": (
        "No complete session of {symbol} is stored. A session with a hole does not count: the import names its holes."
    ),
}


def levels(symbol: str, *, output: Output = None, url: str | None = None, data: str | None = None) -> int:
    """Print the key levels of a symbol, from a running service: a table on a terminal, the API's JSON in a pipe.

    Set OUTCRY_KEY to your API key. There is no option for it, because other users of the machine can see arguments. The
    exit status is 1 if there is no data of the symbol: standard error then says what is missing, and how to get it.

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
    return _ask(url, data, lambda client: _print_levels(client.levels(symbol), _chosen(output)))


def alerts(
    symbol: str | None = None, *, follow: bool = False, output: Output = None, url: str | None = None,
    data: str | None = None,
) -> int:  # fmt: skip
    """Print today's alerts, from a running service. With --follow, also print new alerts as they fire.

    Prints a table on a terminal, the API's JSON in a pipe.

    Set OUTCRY_KEY to your API key. There is no option for it, because other users of the machine can see arguments.

        outcry alerts ES --follow | jq -r .message

    Parameters
    ----------
    symbol
        Product or contract: ES, ESZ6, MES, /ES … Default: all symbols.
    follow
        Print one alert per line, oldest first, until interrupted: its time, severity and text on a terminal, JSON in a
        pipe. Reconnects automatically and then prints missed
        alerts.
    url
        URL of the service. Default: OUTCRY_URL, or the service that runs on the data folder.
    data
        Data folder of the service. Default: OUTCRY_DATA.
    """
    if not follow:
        return _ask(url, data, lambda client: _print_alerts(client.alerts(symbol), _chosen(output)))

    def print_alerts(client: Client) -> None:
        if output == "csv":
            print(csv_line(FOLLOWED), flush=True)
        for alert in unique_alerts(client.stream(symbol) if symbol else client.stream()):
            print(_alert_line(alert, _chosen(output)), flush=True)

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


def _chosen(output: Output) -> Output:
    """Return the format: without a choice, a table on a terminal and JSON in a pipe."""
    return output or ("table" if tables.on_terminal() else "json")


def _print_json(answer: object) -> None:
    print(msgspec.json.format(msgspec.json.encode(answer)).decode())


def _print_levels(answer: LevelsAnswer, output: Output) -> None:
    if output == "json":
        _print_json(answer)
        return
    if output == "table":
        session = "the open session" if answer.live else f"the session of {answer.as_of}"
        print(f"{answer.symbol}: {session}, source {answer.data_source}\n")
    print_rows(LEVELS, _level_rows(answer), output)


def _level_rows(answer: LevelsAnswer) -> Iterator[tuple[str, float, str | None]]:
    """Yield every level of an answer: its name, price, and the date of the session that made it, if it has one."""
    if answer.last_price is not None:
        yield "last_price", answer.last_price, None
    for name, levels in (
        ("developing", answer.developing), ("prior", answer.prior), ("overnight", answer.overnight),
    ):  # fmt: skip
        if levels is not None:
            for field in levels.__struct_fields__:
                yield f"{name}_{field}", getattr(levels, field), None
    for name, dated in (
        ("naked_poc", answer.naked_pocs), ("poor_high", answer.poor_highs), ("poor_low", answer.poor_lows),
    ):  # fmt: skip
        for level in dated:
            yield name, level.price, level.date


def _print_alerts(answer: AlertsAnswer, output: Output) -> None:
    if output == "json":
        _print_json(answer)
        return
    if output == "table" and not answer.alerts:
        print("outcry: No alerts today.", file=sys.stderr)
        return
    print_rows(ALERTS, (_cells(alert, ALERTS) for alert in answer.alerts), output)


def _cells(alert: object, columns: Sequence[str]) -> list[Cell]:
    """Return the fields of an alert that are its columns."""
    return [getattr(alert, name) for name in columns]


def _alert_line(alert: AlertEntry, output: Output) -> str:
    match output:
        case "table":
            return f"{alert.at}  {alert.severity:<8}  {alert.message}"
        case "csv":
            return csv_line(_cells(alert, FOLLOWED))
        case _:
            return msgspec.json.encode(alert).decode()


def _ask(url: str | None, data: str | None, answering: Answering) -> int:
    key = os.environ.get("OUTCRY_KEY", "")
    if not key:
        print(
            "outcry: OUTCRY_KEY is not set. Set it to an API key. `outcry serve --demo` prints one, and `outcry keys "
            "create --email you@example.com` creates one for your own service.",
            file=sys.stderr,
        )
        return 2
    base = service(url, data)
    try:
        with Client(base, key, retry_s=0) as client:
            answering(client)
    except ApiError as problem:
        print(f"outcry: {explained(problem, base)}", file=sys.stderr)
        return 1
    except NotOutcry as problem:
        print(f"outcry: {problem}. Check the URL in --url or OUTCRY_URL.", file=sys.stderr)
        return 1
    except Unreachable as problem:
        print(
            f"outcry: {problem}. Start the service with `outcry serve`, or name another with --url or OUTCRY_URL.",
            file=sys.stderr,
        )
        return 1
    except ValueError as problem:
        print(f"outcry: {problem}", file=sys.stderr)
        return 1
    return 0


def explained(problem: ApiError, base: str) -> str:
    """Return the message of an API error with what its body adds: suggestions, or reasons and remedies.

    base: the service's URL, which the paths in `fix` are relative to.
    """
    if problem.code == "no_licensed_source":
        return _no_data(problem.body, base)
    suggestions = ", ".join(str(name) for name in _list(problem.body.get("suggestions")))
    return f"{problem} Did you mean {suggestions}?" if suggestions else str(problem)


def _no_data(body: dict[str, Any], base: str) -> str:
    """Return why there is no data of a symbol, and how to get it."""
    symbol = str(body.get("symbol", "this symbol"))
    lines = [f"No data for {symbol} (no_licensed_source)."]
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
