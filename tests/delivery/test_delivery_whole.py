"""Delivery within the service: it runs beside the answers, restarts after a failure, and never breaks the pages."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from tests.delivery.messages import StillClock, subscription
from tests.timeouts import within

from outcry.app.installation import open_installation
from outcry.app.people import people_of
from outcry.app.settings import read_settings
from outcry.database.errors import StoreBusy
from outcry.delivery import service as module
from outcry.delivery.dispatcher import Dispatcher
from outcry.delivery.model import AttemptRow, Target
from outcry.delivery.outbox import SqlOutbox
from outcry.delivery.outbox_model import Message, Queue, Reader
from outcry.delivery.sender import SendResult, Verdict
from outcry.delivery.service import Delivery

ARRIVED = SendResult(
    Verdict.ARRIVED, "ok", 200, took_ms=84, phases_ms=(("dns", 4),), request="{}", excerpt="thanks"
)


class Turns:
    """A dispatcher whose runs end as `ways` specifies, the later ones only when cancelled."""

    def __init__(self, *ways: Exception | None) -> None:
        self.counts: Counter[tuple[Target, str]] = Counter({(Target.HTTPS, "ok"): 3})
        self.report: Callable[..., object] = print
        self._ways = list(ways)
        self.runs = self.woken = 0
        self.ended: list[str] = []

    async def run(self) -> None:
        self.runs += 1
        way = self._ways.pop(0) if self._ways else None
        if way is not None:
            raise way
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0.01)  # a delivery is in progress
            self.ended.append("what was under way is recorded")
            raise

    def wake(self) -> None:
        self.woken += 1

    def close(self) -> None:
        self.ended.append("the threads end")


class Guard:
    """Returns a scripted verdict after a delay."""

    def __init__(self, ended: list[str], verdict: str = "ok", after_s: float = 0) -> None:
        self._ended, self._verdict, self._after_s = ended, verdict, after_s

    async def check(self, address: str) -> str:
        await asyncio.sleep(self._after_s)
        return f"{self._verdict} {address}"

    async def close(self) -> None:
        self._ended.append("connections are closed")


class MemoryOutbox:
    """An outbox that stores test attempts, and raises `StoreBusy` in the named method."""

    def __init__(self, busy_at: str = "") -> None:
        self._busy_at = busy_at
        self.attempts: list[tuple[AttemptRow, Queue | None]] = []

    def queue(self, _subscription_id: int) -> Queue:
        if self._busy_at == "queue":
            raise StoreBusy("not now")
        return Queue(failures=4, warned=1)

    def keep_attempt(self, attempt: AttemptRow, queue: Queue | None) -> None:
        if self._busy_at == "keep_attempt":
            raise StoreBusy("not now")
        self.attempts.append((attempt, queue))


class Answering:
    """A sender with a scripted result."""

    def __init__(self, do: Callable[[], SendResult]) -> None:
        self._do = do
        self.sent: list[tuple[Message, str, Sequence[str]]] = []

    async def send(self, message: Message, address: str, secrets: Sequence[str]) -> SendResult:
        self.sent.append((message, address, secrets))
        return self._do()


def reader(_user_id: int) -> Reader:
    return Reader("ann@example.com", "en", "UTC", 7)


class Whole:
    """Delivery with scripted parts."""

    def __init__(self, do: Callable[[], SendResult] = lambda: ARRIVED, **parts: Any) -> None:
        self.dispatcher = parts.get("dispatcher") or Turns()
        self.outbox, self.sender = MemoryOutbox(parts.get("busy_at", "")), Answering(do)
        self.log_lines: list[str] = []
        guard = parts.get("guard") or Guard(self.dispatcher.ended)
        self.delivery = Delivery(
            cast("Dispatcher", self.dispatcher), cast("SqlOutbox", self.outbox), {Target.HTTPS: self.sender}, guard,
            StillClock(), parts.get("reader", reader),
        )  # fmt: skip

    def report(self, event: str, **_: object) -> None:
        self.log_lines.append(event)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        await self.delivery.start(self.report)
        await asyncio.sleep(0)
        yield
        await self.delivery.stop()

    def tested(self, target: Target = Target.HTTPS) -> module.TestResult:
        async def test() -> module.TestResult:
            async with self.running():
                row = subscription(target)
                return await asyncio.to_thread(self.delivery.test, row, "https://there", ["whsec_x"])

        return asyncio.run(test())


def test_it_runs_until_it_is_stopped_and_ends_in_order() -> None:
    whole = Whole()

    async def live() -> None:
        assert not whole.delivery.running
        async with whole.running():
            assert whole.delivery.running
            assert not whole.delivery.failed
            whole.delivery.wake()
        assert not whole.delivery.running

    asyncio.run(live())
    assert whole.dispatcher.woken == 1
    assert whole.dispatcher.ended == [
        "what was under way is recorded", "connections are closed", "the threads end",
    ]  # fmt: skip
    assert whole.delivery.counted() == {"https ok": 3}


def test_a_failed_dispatcher_is_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ANEW_S", 0.0)
    dispatcher = Turns(RuntimeError("one"), RuntimeError("two"))
    whole = Whole(dispatcher=dispatcher)

    async def live() -> None:
        async with whole.running():
            while dispatcher.runs < 3:
                await asyncio.sleep(0.001)
            assert not whole.delivery.failed

    asyncio.run(within(live(), 60))
    assert whole.log_lines == ["delivery_restarted"] * 2


def test_urls_are_checked_by_the_guard_and_email_by_the_settings() -> None:
    whole = Whole()

    async def live() -> list[str]:
        async with whole.running():
            return [
                await asyncio.to_thread(whole.delivery.check_url, target, "https://there")
                for target in (Target.HTTPS, Target.EMAIL)
            ]

    assert asyncio.run(live()) == ["ok https://there", "mail_not_set_up"]
    assert whole.delivery.check_url(Target.HTTPS, "https://there") == "unverified"


def test_a_guard_that_takes_too_long_gives_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_JUDGING_S", 0.05)
    whole = Whole(guard=Guard([], after_s=60))

    async def live() -> str:
        async with whole.running():
            return await asyncio.to_thread(whole.delivery.check_url, Target.HTTPS, "https://there")

    assert asyncio.run(live()) == "unverified"


def test_a_successful_test_is_stored_and_enables_the_queue() -> None:
    whole = Whole()
    assert whole.tested() == module.TestResult("ok", 200, 84, (("dns", 4),), "{}", "thanks")
    ((message, address, secrets),) = whole.sender.sent
    assert (message.entries, address, secrets) == ((), "https://there", ["whsec_x"])
    ((attempt, queue),) = whole.outbox.attempts
    assert (attempt.outcome, attempt.code, attempt.alert_type) == ("delivered", "ok", "webhook-test")
    assert queue is not None
    assert (queue.failures, queue.warned) == (0, 0)


def test_a_failed_test_does_not_count_against_the_queue() -> None:
    whole = Whole(lambda: SendResult(Verdict.LATER, "status", 500))
    assert whole.tested().code == "status"
    ((attempt, queue),) = whole.outbox.attempts
    assert (attempt.outcome, attempt.code, queue) == ("failed", "status", None)


def test_a_test_reports_an_error_of_its_sender() -> None:
    def broken() -> SendResult:
        raise RuntimeError("a fault of ours")

    whole = Whole(broken)
    assert whole.tested().code == "our_fault"
    assert [attempt.code for attempt, _ in whole.outbox.attempts] == ["our_fault"]
    assert whole.log_lines == ["sender_failed"]


def test_a_test_returns_a_result_after_any_other_error() -> None:
    def nobody(_user_id: int) -> Reader:
        raise AssertionError("removed meanwhile")

    whole = Whole(reader=nobody)
    assert whole.tested().code == "our_fault"
    assert whole.log_lines == ["webhook_test_failed"]


@pytest.mark.parametrize(("busy_at", "code", "sent"), [("queue", "store_busy", 0), ("keep_attempt", "ok", 1)])
def test_a_test_while_the_store_is_busy(busy_at: str, code: str, sent: int) -> None:
    whole = Whole(busy_at=busy_at)
    assert whole.tested().code == code
    assert len(whole.sender.sent) == sent


def test_a_test_without_a_configured_sender() -> None:
    assert Whole().tested(Target.EMAIL).code == "mail_not_set_up"


def test_a_test_that_is_never_answered_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TESTING_S", 0.05)
    whole = Whole()

    async def hang(*_: object) -> SendResult:
        await asyncio.Event().wait()
        return ARRIVED

    whole.sender.send = hang  # type: ignore[method-assign]
    assert whole.tested().code == "answer_timeout"


def test_a_test_before_the_start_does_not_blame_the_url() -> None:
    whole = Whole()
    assert whole.delivery.test(subscription(Target.HTTPS), "https://there", []).code == "our_fault"
    assert whole.outbox.attempts == []


def test_delivery_follows_the_settings(tmp_path: Path) -> None:
    settings = read_settings({}, data=str(tmp_path), private_hosts="localhost:8443, sink.lan")
    with open_installation(settings) as installation:
        delivery = people_of(installation).delivery
        assert delivery.admitted == ["localhost:8443", "sink.lan"]

        async def judged() -> list[str]:
            await delivery.start(lambda *_, **__: None)
            addresses = ("https://127.0.0.1/in", "https://10.0.0.1/x", "http://mysite.dev/x")
            found = [await asyncio.to_thread(delivery.check_url, Target.HTTPS, one) for one in addresses]
            found.append(await asyncio.to_thread(delivery.check_url, Target.EMAIL, "ann@example.com"))
            await delivery.stop()
            return found

        assert asyncio.run(judged()) == [
            "endpoint_private", "endpoint_private", "endpoint_not_https", "mail_not_set_up",
        ]  # fmt: skip
