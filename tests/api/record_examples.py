"""Record the examples of the OpenAPI document: `python -m tests.api.record_examples > src/outcry/api/examples.json`.

A service with a few simulated sessions answers requests at a fixed time, so every run records the same answers. Long
lists are cut, because readers need the form of an item and not all of them.
"""

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from io import BytesIO, TextIOWrapper
from tempfile import TemporaryDirectory
from typing import Any, cast

import msgspec

from outcry.access.keys import KeyRefusal
from outcry.access.model import GrantRow
from outcry.app.application import build_application
from outcry.app.installation import Installation, open_installation
from outcry.app.settings import read_settings
from outcry.delivery.outbox_model import Entry, Message
from outcry.delivery.payload import body_of, encoded
from outcry.delivery.signing import signed
from outcry.feeds.simulator.feed import SimulatorFeed
from outcry.feeds.simulator.history import past_sessions
from outcry.feeds.simulator.market import SimulatedMarket
from outcry.http.errors import (
    INTERNAL,
    JSON_TYPE,
    STARTING,
    UNAVAILABLE,
    method_not_allowed,
    rate_limited,
    render,
    unauthorized,
    wrong_key,
)
from outcry.http.messages import load_catalogue
from outcry.market.calendar import Calendar
from outcry.market.instruments import Contract
from outcry.sessions.demo_history import write_history

SEED, SESSIONS = 1848, 4
#: 2026-03-04 11:40 in New York (ns UTC).
NOW_NS = 1_772_642_400_000_000_000
MOST_ITEMS = 3
#: A secret that signs nothing but the example.
SECRET = "whsec_b3V0Y3J5LWV4YW1wbGUtc2VjcmV0"
MESSAGE_ID = "msg_example"

#: Operation, name and summary of an example, and the request it answers.
REQUESTS = (
    ("getLevels", "live", "A live answer: the session is open, the feed connected.", "/api/levels?symbol=ES"),
    ("getLevels", "delayed", "A delayed answer: fields of the open session are null.", "/api/levels?symbol=ZN"),
    ("getAlerts", "alerts", "Alerts of the current trade date.", "/api/alerts?symbol=ES"),
    ("getAlertsHistory", "history", "The two newest alerts.", "/api/alerts/history?symbol=ES&limit=2"),
    ("getSymbols", "symbols", "The first products.", "/api/symbols"),
    ("getProfile", "profile", "The open session, first rows.", "/api/profile?symbol=ES"),
    (
        "getProfile", "week", "The week so far with the overnight sessions, in rows of four ticks, first rows.",
        "/api/profile?symbol=ES&period=week&session=full&row=4",
    ),
    ("getHistory", "history", "Two sessions.", "/api/history?symbol=ES&from=2026-03-02&to=2026-03-03"),
    ("getChart", "chart", "The newest session, shortened.", "/api/chart?symbol=ES&sessions=1"),
    ("matchSettings", "match", "The nearest settings, shortened.",
     "/api/match?symbol=ES&date=2026-03-03&poc=7040.5&vah=7043.0&val=7022.5"),
    ("getPresets", "presets", "The first presets.", "/api/presets"),
    ("getContext", "context", "Details behind a live answer.", "/api/context?symbol=ES"),
    ("error", "missing_symbol", "The parameter `symbol` is missing.", "/api/levels"),
    ("error", "invalid_parameter", "A date that does not exist.", "/api/profile?symbol=ES&date=2026-02-30"),
    ("error", "not_found", "No session is stored for the date.", "/api/profile?symbol=ES&date=2026-01-02"),
    ("error", "unknown_symbol", "A symbol that does not exist.", "/api/levels?symbol=ESX"),
    ("error", "no_licensed_source", "No data for this key.", "/api/levels?symbol=ZS"),
)  # fmt: skip
#: Errors that no single request to this service causes: summary and error.
PROBLEMS = (
    ("No key was sent.", unauthorized(KeyRefusal.MISSING)),
    ("The key can only send trades.", wrong_key("read")),
    ("The endpoint accepts other methods.", method_not_allowed(("GET", "HEAD"))),
    ("Too many requests in 60 seconds.", rate_limited(8_250, 30, "free")),
    ("The server failed.", INTERNAL),
    ("The data store did not respond.", UNAVAILABLE),
    ("The server is starting.", STARTING),
)
REQUEST_ID = "9f1c2ab34d5e-0000002a"


class StillClock:
    """A clock that always has the same time."""

    def now_ns(self) -> int:
        """Return 2026-03-04 16:40 UTC."""
        return NOW_NS


class OneProductFeed(SimulatorFeed):
    """The simulated market's feed of ES only."""

    async def contracts(self) -> list[Contract]:
        return [contract for contract in await super().contracts() if contract.root == "ES"]


async def get(application: Any, target: str, key: str) -> Any:
    """Return the JSON of the answer to a GET request."""
    path, _, query = target.partition("?")
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": query.encode(),
        "headers": [(b"x-api-key", key.encode())], "client": ("127.0.0.1", 1), "scheme": "http",
        "server": ("127.0.0.1", 80), "http_version": "1.1",
    }  # fmt: skip
    await application.asgi(scope, None, send)
    return json.loads(b"".join(message.get("body", b"") for message in sent))


@contextmanager
def service() -> Iterator[tuple[Installation, Any, str]]:
    """Open a service with simulated data: its installation, its application, and a key."""
    with (
        TemporaryDirectory() as folder,
        open_installation(
            read_settings({}, data=folder), StillClock(), market_clock=lambda _: StillClock()
        ) as installation,
        installation.log.exclusively(),
    ):
        universe, calendar = installation.reference.universe, installation.reference.calendar
        market, today = SimulatedMarket(SEED, universe.products, calendar), _today(calendar)
        write_history(
            installation.store, universe.products, [universe.front(root, today) for root in ("ES", "ZN")],
            lambda contract: past_sessions(market, contract, calendar, today, SESSIONS),
            source="simulator", now_ns=NOW_NS,
        )  # fmt: skip
        for scope in ("completed", "live"):
            installation.store.add_grant(GrantRow(0, "everyone", scope, (), None, None, 0, None), NOW_NS)
        key = installation.keys.create("reader@example.com", "pro", NOW_NS)
        feed = OneProductFeed(market, universe, calendar, installation.market_clock)
        log = cast("Any", TextIOWrapper(BytesIO()))
        with redirect_stderr(log):
            application = build_application(installation, [(0, feed)]).application
        yield installation, application, key


def _today(calendar: Calendar) -> Any:
    found = calendar.trade_date_at("ES", NOW_NS)
    assert found is not None
    return found


async def answers(installation: Installation, application: Any, key: str) -> dict[str, Any]:
    """Answer every request once the feed is live and has sent all trades up to now."""
    await application.start()
    try:
        async with asyncio.timeout(60):
            before, last = None, await get(application, "/api/levels?symbol=ES", key)
            while not last.get("live") or last != before:  # until the feed has sent its last trade
                await asyncio.sleep(0.5)
                before, last = last, await get(application, "/api/levels?symbol=ES", key)
        found: dict[str, Any] = {}
        for operation, name, summary, target in REQUESTS:
            value = shortened(await get(application, target, key))
            if "request_id" in value:
                value["request_id"] = REQUEST_ID
            found.setdefault(operation, {})[name] = {"summary": summary, "value": value}
        for summary, problem in PROBLEMS:
            body = render(problem, load_catalogue(), "en", JSON_TYPE).body(REQUEST_ID.encode())
            found["error"][problem.code] = {"summary": summary, "value": json.loads(body)}
        return found | {"receiveAlerts": {"alerts": webhook(installation)}}
    finally:
        await application.stop()


def webhook(installation: Installation) -> dict[str, Any]:
    """Return a message with the newest alert as it would be sent, and the headers that identify and sign it."""
    alert = installation.alerts.alerts(None)[-1]
    message = Message(
        MESSAGE_ID, cast("Any", None), cast("Any", None), cast("Any", None), (Entry(1, 41, alert),), 0, 0, 0
    )
    body = body_of(message, "https://outcry.example.com", NOW_NS)
    headers = signed(MESSAGE_ID, encoded(body), [SECRET], NOW_NS) | {"outcry-seq": f"{alert.symbol}=41"}
    return {"summary": "One alert.", "value": msgspec.to_builtins(body), "headers": headers}


def shortened(value: Any) -> Any:
    """Return a JSON value whose lists have a few items only, and whose `count` is that of its list."""
    if isinstance(value, list):
        return [shortened(item) for item in value[:MOST_ITEMS]]
    if not isinstance(value, dict):
        return value
    found = {name: shortened(item) for name, item in value.items()}
    if "count" in found:
        (found["count"],) = (len(item) for item in found.values() if isinstance(item, list))
    return found


def recorded() -> bytes:
    """Return the examples as JSON."""
    with service() as (installation, application, key):
        found = asyncio.run(answers(installation, application, key))
    return msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n"


if __name__ == "__main__":
    sys.stdout.buffer.write(recorded())
