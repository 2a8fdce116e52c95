"""`outcry agent check`: check the service, its key, and each feed and contract of the configuration file."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from outcry.agent.http_transport import ServiceEndpoint
from outcry.agent.sender import Sender
from outcry.base.clock import Clock
from outcry.cli.agent_config import Plan
from outcry.client.errors import ApiError, Unreachable, error_from
from outcry.connections.connection_check import check_feed
from outcry.trades.feed import Feed, FeedLost

_TIMEOUT_S = 10.0


class CheckResult(NamedTuple):
    """The result of one check. passed: None if it was not tried. message: the text instead of the code's own."""

    feed: str
    contract: str
    step: str
    passed: bool | None
    code: str
    message: str = ""


async def findings(plan: Plan, clock: Clock) -> Sequence[CheckResult]:
    """Run all checks and return their results. No trade is sent and nothing is stored."""
    service = await asyncio.to_thread(_service, plan.service)
    looks = [_feed(planned.label, planned.make(), clock) for planned in plan.feeds]
    return [service, *(row for rows in await asyncio.gather(*looks) for row in rows)]


def _service(service: ServiceEndpoint) -> CheckResult:
    """Check the service and its key by pushing an empty body.

    If the service rejects the body as invalid, it has accepted the key.
    """
    sender = Sender(service.url, service.key, timeout_s=_TIMEOUT_S, trust=service.trust)
    try:
        reply = sender.ask("check", b"")
    except Unreachable as problem:
        return CheckResult("service", "", "reached", passed=False, code="unreachable", message=str(problem))
    finally:
        sender.close()
    problem = error_from(*reply)
    if isinstance(problem, ApiError) and problem.code == "invalid_request":
        return CheckResult("service", "", "key", passed=True, code="ok")
    if isinstance(problem, ApiError):
        code = problem.code if problem.code.isprintable() else "refused"
        return CheckResult("service", "", "key", passed=False, code=code)
    message = f"{service.url} responds, but is not an Outcry service. Check the URL."
    return CheckResult("service", "", "reached", passed=False, code="not_outcry", message=message)


async def _feed(label: str, feed: Feed, clock: Clock) -> Sequence[CheckResult]:
    try:
        contracts = await feed.contracts()
        found = await check_feed(feed, contracts, clock.now_ns())
    except FeedLost as problem:
        return [CheckResult(label, "", "sign_in", passed=False, code=problem.code)]
    return [CheckResult(label, one.contract, one.step.value, one.passed, one.code) for one in found]
