"""`outcry agent check`: check the service, its key, and each feed and contract of the configuration file."""

import asyncio
from collections.abc import Sequence

from outcry.agent.http_transport import ServiceEndpoint
from outcry.agent.sender import Sender
from outcry.base.clock import Clock
from outcry.cli.agent_config import Plan
from outcry.client.errors import ApiError, Unreachable, error_from
from outcry.connections.connection_check import check_feed
from outcry.trades.feed import Feed, FeedLost

#: Feed, contract, step, whether it passed (None: not tried), code.
Row = tuple[str, str, str, bool | None, str]
_TIMEOUT_S = 10.0


async def findings(plan: Plan, clock: Clock) -> Sequence[Row]:
    """Run all checks. No trade is sent and nothing is stored."""
    service = await asyncio.to_thread(_service, plan.service)
    looks = [_feed(planned.label, planned.make(), clock) for planned in plan.feeds]
    return [service, *(row for rows in await asyncio.gather(*looks) for row in rows)]


def _service(service: ServiceEndpoint) -> Row:
    """Push an empty body: a service that accepts the key rejects the body as invalid."""
    sender = Sender(service.url, service.key, timeout_s=_TIMEOUT_S, trust=service.trust)
    try:
        status, reply = sender.ask("check", b"")
    except Unreachable as problem:
        return "service", "", "reached", False, str(problem)
    finally:
        sender.close()
    problem = error_from(status, reply)
    if isinstance(problem, ApiError) and problem.code == "invalid_request":
        return "service", "", "key", True, "ok"
    if isinstance(problem, ApiError):
        return "service", "", "key", False, problem.code if problem.code.isprintable() else "refused"
    return (
        "service",
        "",
        "reached",
        False,
        f"{service.url} responds, but is not an Outcry service. Check the URL.",
    )


async def _feed(label: str, feed: Feed, clock: Clock) -> Sequence[Row]:
    try:
        contracts = await feed.contracts()
        found = await check_feed(feed, contracts, clock.now_ns())
    except FeedLost as problem:
        return [(label, "", "sign_in", False, problem.code)]
    return [(label, one.contract, one.step.value, one.passed, one.code) for one in found]
