"""Connection check of a broker: `/account/brokers/{id}/check`. It tests each step of the connection.

A check runs in the background, so no request waits for it. The connection's page shows its progress and the failed
steps.
"""

from collections.abc import Sequence

from starlette.responses import Response

from outcry.base.errors import StoreUnavailable
from outcry.base.log_events import LogEvent
from outcry.connections.model import Finding
from outcry.database.errors import StoreBusy
from outcry.people.audit import Event
from outcry.web.account.broker_page import LIST, ONE, back, note, own
from outcry.web.page_context import Page, PageContext, PageRequest

#: Checks per user and minute. Each may sign in with the vendor, and vendors limit sign-ins.
_CHECKS = 3


async def check(context: PageContext, request: PageRequest) -> Response:
    """Start a check in the background and redirect to the connection's page."""
    user, row = await own(context, request)
    await context.form(request)
    place = f"{LIST}/{row.id}"
    verdict = await context.counted(f"check:{user.id}", _CHECKS)
    if not verdict.allowed:
        return context.to(request, f"{place}?done=often")

    async def look() -> Sequence[Finding] | None:
        try:
            return await context.services.connections.check(user.id, row.id)
        except (StoreBusy, StoreUnavailable):
            return None
        except Exception as problem:  # noqa: BLE001 - log the error; the page shows the check as lost
            context.services.event_log.error(
                LogEvent.BROKER_CHECK_FAILED, broker=row.broker, exc_info=problem
            )
            return None

    async def tell(findings: Sequence[Finding] | None) -> None:
        wrong = (finding.code for finding in findings or () if finding.passed is False)
        code = next(wrong, "ok") if findings is not None else "no_end"
        try:
            await note(context, request, user, Event.CONNECTION_CHECKED, row, code=code)
        except (StoreBusy, StoreUnavailable):
            context.services.event_log.warning(LogEvent.BROKER_CHECK_NOT_RECORDED, broker=row.broker)

    begun = context.checks.begin((user.id, row.id), look, context.now_ns, tell)
    return context.to(request, f"{place}#check" if begun else f"{place}?done=under_way")


PAGES: Sequence[Page] = (
    (f"{ONE}/check", ("POST",), check),
    (f"{ONE}/check", ("GET",), back),
)
