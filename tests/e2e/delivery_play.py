"""Alerts, subscriptions and the endpoint of `delivery_worker`, and the checks of its result."""

import asyncio
import hashlib
import json
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from aiohttp import web
from support.certificates import certificate

from outcry.delivery.https_webhook import NUMBERS_HEADER
from outcry.live.model import AlertRow
from outcry.market.alerts.machine import AlertType
from outcry.market.calendar import SessionKind
from outcry.market.units import NANOS_PER_MS

ROOTS = ("ES", "NQ", "CL", "GC", "ZN")
ENDPOINTS = 20
#: Of the endpoints one answers every fifth message 500 at first, one takes every fifth and hangs up at first.
FAILING, SILENT = 7, 8
#: Maximum time in which a worker records an endpoint's response.
_RECORDED_WITHIN_S = 3.0


def alert(number: int) -> AlertRow:
    root, at_ns = ROOTS[number % len(ROOTS)], number * NANOS_PER_MS
    return AlertRow(
        owner=0, feed="demo", contract=f"{root}H2026", symbol=root, type=AlertType.IB_BREAK_UP, severity="warn",
        session=SessionKind.RTH, trade_date=date(2026, 1, 2), key=f"{root}:ib-break-up:{number}", at_ns=at_ns,
        price_e9=5_000_250_000_000, ref="IBH", params={"ibHigh": 5_000_000_000_000}, invented=False,
    )  # fmt: skip


def symbols(number: int) -> tuple[str, ...]:
    return () if number == 0 else (ROOTS[number % len(ROOTS)],)


def receive(folder: Path) -> None:
    """Receive requests, and write a line for each after its response."""
    made = certificate(folder)
    seen: dict[str, set[str]] = defaultdict(set)

    async def take(request: web.Request) -> web.Response:
        body, number = await request.read(), request.match_info["number"]
        message, known = request.headers["webhook-id"], seen[number]
        again = message in known
        known.add(message)
        fifth = len(known) % 5 == 0 and not again
        status = {FAILING: 500, SILENT: 0}.get(int(number), 200) if fifth else 200
        line = {
            "at": time.monotonic(), "to": int(number), "id": message, "status": status,
            "numbers": request.headers[NUMBERS_HEADER].split(), "body": hashlib.sha256(body).hexdigest(),
            "alerts": [alert["key"] for alert in json.loads(body)["alerts"]],
        }  # fmt: skip
        log.write(json.dumps(line) + "\n")
        if not status and request.transport is not None:
            request.transport.abort()
        return web.Response(status=status or 200)

    async def serve() -> None:
        application = web.Application()
        application.router.add_post("/in/{number}", take)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=made.server)
        await site.start()
        (folder / "port.new").write_text(str(runner.addresses[0][1]))
        (folder / "port.new").rename(folder / "port")
        ended = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
        await ended.wait()
        await runner.cleanup()

    with (folder / "received").open("w") as log:
        asyncio.run(serve())


def faults(alerts: int, received: Sequence[dict[str, Any]], killed_s: Sequence[float]) -> Iterator[str]:
    """Return one line for each fault of the result."""
    message_ids: dict[int, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    numbers: dict[int, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    arrived: dict[int, set[str]] = defaultdict(set)
    bodies: dict[str, set[str]] = defaultdict(set)
    taken_s: dict[str, float] = {}
    for line in received:
        bodies[line["id"]].add(line["body"])
        for key, number in zip(line["alerts"], line["numbers"], strict=True):
            message_ids[line["to"]][key].add(line["id"])
            numbers[line["to"]][key].add(number)
        if line["id"] in taken_s and not _killed_after(taken_s[line["id"]], killed_s):
            yield f"{line['id']} came again though nobody was killed"
        if line["status"] == 200:
            taken_s[line["id"]] = line["at"]
            arrived[line["to"]].update(line["alerts"])
    yield from (f"{message} had {len(found)} bodies" for message, found in bodies.items() if len(found) > 1)
    for to in range(ENDPOINTS):
        wanted = [alert(n) for n in range(alerts) if not symbols(to) or alert(n).symbol in symbols(to)]
        missing = {row.key for row in wanted} ^ arrived[to]
        if missing:
            yield f"endpoint {to}: {len(missing)} alerts lost, or not for it: {sorted(missing)[:3]}"
        yield from (
            f"endpoint {to}: {key} came under {ids}" for key, ids in message_ids[to].items() if len(ids) > 1
        )
        yield from _gaps(to, wanted, numbers[to])


def _killed_after(at_s: float, killed_s: Sequence[float]) -> bool:
    return any(-0.5 <= each - at_s <= _RECORDED_WITHIN_S for each in killed_s)


def _gaps(to: int, wanted: Sequence[AlertRow], numbers: Mapping[str, set[str]]) -> Iterator[str]:
    """Return the gaps in the alert numbers of a symbol, in the order of recording."""
    count: Counter[str] = Counter()
    for row in wanted:
        count[row.symbol] += 1
        if numbers[row.key] != {f"{row.symbol}={count[row.symbol]}"}:
            yield f"endpoint {to}: {row.key} is number {numbers[row.key]}, not {count[row.symbol]}"
            return
