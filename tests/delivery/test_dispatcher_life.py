"""The running dispatcher: wake-up, database failures, shutdown; a stalled endpoint delays no other."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from tests.delivery.delivery_harness import ARRIVED, Harness, RecordedNotices, open_harness
from tests.timeouts import until, within

from outcry.database.errors import StoreBusy
from outcry.delivery import announcements, dispatcher, result_writer
from outcry.delivery.dispatcher import Dispatcher, Parts
from outcry.delivery.model import Target
from outcry.delivery.outbox import SqlOutbox
from outcry.delivery.outbox_model import DeliveryResult, Message
from outcry.delivery.sender import SendResult, Verdict
from outcry.delivery.signing_secrets import place_of
from outcry.market.units import NANOS_PER_DAY, NANOS_PER_HOUR, NANOS_PER_SECOND

S = NANOS_PER_SECOND
GONE = SendResult(Verdict.GONE, "gone", 410)


class Hindered:
    """The real outbox with a hook. `before` is called with each method's name and arguments, and may raise."""

    def __init__(self, outbox: SqlOutbox, before: Callable[..., None]) -> None:
        self._outbox, self._before = outbox, before

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._outbox, name)

        def call(*given: Any) -> Any:
            self._before(name, *given)
            return method(*given)

        return call


class Log:
    """Recorded events of the operator's log."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def __call__(self, event: str, **_: object) -> None:
        self.events.append(event)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    with open_harness(tmp_path) as made:
        yield made


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deliveries run only when woken, and refused results are retried without a pause."""
    monkeypatch.setattr(dispatcher, "TICK_S", 3600.0)
    monkeypatch.setattr(result_writer, "_RETRY_S", 0.0)


def hindered(harness: Harness, before: Callable[..., None], **parts: Any) -> tuple[Dispatcher, Log]:
    usual = Parts(
        cast("SqlOutbox", Hindered(harness.outbox, before)), dict.fromkeys(Target, harness.sender), harness.encryptor,
        harness.clock, harness.reported_missed, "w2",
    )  # fmt: skip
    made, log = Dispatcher(replace(usual, **parts), chance=lambda: 0.5), Log()
    made.report = log
    return made, log


@asynccontextmanager
async def running(delivering: Dispatcher) -> AsyncIterator["asyncio.Task[None]"]:
    task = asyncio.create_task(delivering.run())
    await asyncio.sleep(0.05)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


def sent_to(harness: Harness, number: int) -> list[Message]:
    return [message for _, message in harness.sender.sent if message.subscription.id == number]


def test_it_delivers_when_woken_and_shuts_down_in_order(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "TICK_S", 3600.0)
    row = harness.subscribe(harness.person())

    async def live() -> None:
        async with running(harness.dispatcher):
            harness.fire()
            await asyncio.sleep(0.1)
            assert harness.sender.sent == []
            harness.dispatcher.wake()
            await until(lambda: harness.sender.sent)

    asyncio.run(live())
    assert [attempt.outcome for attempt in harness.log(row)] == ["delivered"]


def test_a_slow_store_gets_smaller_requests(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that fails above 70 rows is asked for 512, 256, 128, and then 64."""
    monkeypatch.setattr(dispatcher, "_RETRY_S", 0.0)
    monkeypatch.setattr(dispatcher, "TICK_S", 0.01)
    asked: list[int] = []

    def slow(name: str, *given: Any) -> None:
        if name == "claim":
            asked.append(given[3])
            if given[3] > 70:
                raise StoreBusy("it takes too long")

    person = harness.person()
    for _ in range(100):
        harness.subscribe(person)
    harness.fire()
    delivering, _ = hindered(harness, slow)

    async def live() -> None:
        async with running(delivering):
            await until(lambda: len(harness.sender.sent) == 100)

    asyncio.run(live())
    assert asked[:4] == [512, 256, 128, 64]


# -- recording


def test_unwritten_results_are_written_after_a_restart(harness: Harness) -> None:
    row = harness.subscribe(harness.person())
    breaks = ["once"]

    def before(name: str, *_: object) -> None:
        if name == "record" and breaks:
            raise StoreBusy("not now")

    made, _ = hindered(harness, before)

    def broken(event: str, **_: object) -> None:
        if event == "outbox_unwritable":
            breaks.clear()
            raise RuntimeError("the log is full")

    made.report = broken

    async def live() -> None:
        running_ = asyncio.create_task(made.run())
        harness.fire()
        made.wake()
        with pytest.raises(RuntimeError, match="the log is full"):
            await within(running_, 60)
        assert harness.log(row) == []
        async with running(made):
            await until(lambda: harness.log(row))

    asyncio.run(live())
    assert [attempt.outcome for attempt in harness.log(row)] == ["delivered"]
    assert len(harness.sender.sent) == 1


@pytest.mark.parametrize("problem", [StoreBusy("constraint failed"), RuntimeError("a fault of ours")])
def test_a_permanently_refused_result_is_dropped_and_the_others_are_stored(
    harness: Harness, problem: Exception
) -> None:
    rows = [harness.subscribe(harness.person(f"{name}@example.com")) for name in ("ann", "bob", "cem")]
    bad = rows[1]

    def before(name: str, *given: Any) -> None:
        if name == "record" and any(done.message.subscription.id == bad.id for done in given[0]):
            raise problem

    made, log = hindered(harness, before)
    harness.fire()
    assert harness.step(made) == 3
    assert [[attempt.outcome for attempt in harness.log(row)] for row in rows] == [
        ["delivered"],
        [],
        ["delivered"],
    ]
    assert log.events.count("delivery_result_lost") == 1
    harness.clock.ns += 61 * S
    assert harness.step() == 1
    first, second = sent_to(harness, bad.id)
    assert first.message_id == second.message_id


def test_during_a_store_outage_no_result_is_dropped(harness: Harness) -> None:
    rows = [harness.subscribe(harness.person(f"{name}@example.com")) for name in ("ann", "bob")]
    left = list(range(20))

    def before(name: str, *_: object) -> None:
        if name in ("record", "forget_old") and left:
            left.pop()
            raise StoreBusy("database is locked")

    made, log = hindered(harness, before)
    harness.fire()
    harness.step(made)
    assert set(log.events) == {"outbox_unwritable"}
    assert [len(harness.log(row)) for row in rows] == [1, 1]


def test_a_faulty_message_stops_no_other(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [harness.subscribe(harness.person(f"{name}@example.com")) for name in ("ann", "bob")]
    became = dispatcher.became

    def breaking(message: Message, *given: Any) -> Any:
        if message.subscription.id == rows[0].id:
            raise RuntimeError("a fault of ours")
        return became(message, *given)

    monkeypatch.setattr(dispatcher, "became", breaking)
    made, log = hindered(harness, lambda *_: None)
    harness.fire()
    harness.step(made)
    assert [len(harness.log(row)) for row in rows] == [0, 1]
    assert log.events == ["message_failed"]


# -- owners


@pytest.mark.parametrize("way", ["hangs", "breaks"])
def test_a_stalled_notice_delays_no_delivery(harness: Harness, way: str) -> None:
    row = harness.subscribe(harness.person())
    asked, free = threading.Event(), threading.Event()

    class Stuck(RecordedNotices):
        def switched_off(self, message: Message, reason: str) -> None:
            asked.set()
            if way == "breaks":
                raise RuntimeError("no mail today")
            free.wait(120)

    made, log = hindered(harness, lambda *_: None, notices=Stuck())
    harness.sender.answer = lambda message: GONE if message.subscription.id == row.id else ARRIVED

    async def live() -> None:
        async with running(made) as task:
            harness.fire()
            made.wake()
            await until(asked.is_set)
            other = harness.subscribe(harness.person("bob@example.com"))
            harness.fire()
            made.wake()
            try:
                await until(lambda: harness.log(other))  # while the notice still hangs
                assert not task.done()
            finally:
                free.set()

    asyncio.run(live())
    assert ("owner_notice_failed" in log.events) == (way == "breaks")


def test_of_too_many_notices_the_oldest_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcements, "MOST_WAITING", 3)
    begun, free, reasons = threading.Event(), threading.Event(), list[str]()

    class Slow:
        def warned(self, message: Message, hours: int) -> None:
            raise AssertionError

        def switched_off(self, message: Message, reason: str) -> None:
            begun.set()
            assert free.wait(10)
            reasons.append(reason)

    log = Log()
    made = announcements.Announcements(Slow(), log)

    def off(reason: str) -> Sequence[DeliveryResult]:
        return [cast("DeliveryResult", type("Off", (), {"message": None, "disable": reason}))]

    made.take([], off("0"))
    assert begun.wait(10)
    for number in range(1, 6):
        made.take([], off(str(number)))
    free.set()
    made.settle(10)
    made.close()
    assert reasons == ["0", "3", "4", "5"]
    assert len(log.events) == 2


def test_no_notice_is_sent_if_the_url_changed_in_the_meantime(
    harness: Harness,
) -> None:
    row = harness.subscribe(harness.person())
    sealed = harness.encryptor.encrypt("https://new.mysite.dev/x", place_of(row.user_id, row.created_ns))

    def moved(_: Message) -> SendResult:
        harness.subscriptions.change_subscription(
            row.user_id, row.id, lambda kept: replace(kept, sealed_address=sealed)
        )
        return GONE

    harness.sender.answer = moved
    harness.fire()
    harness.step()
    assert harness.reported_missed.notices == []
    harness.sender.answer = lambda _: GONE
    harness.clock.ns += 2 * S
    harness.step()
    assert harness.reported_missed.notices == [("Desk", "gone")]


# -- slots


def test_five_hundred_slow_endpoints_delay_no_healthy_one(harness: Harness) -> None:
    """The dispatcher learns which endpoints are slow: at first they respond at once, but report three seconds."""
    people = [harness.person(f"tarpit{number}@example.com") for number in range(26)]
    slow = {harness.subscribe(person).id for person in people for _ in range(20)}
    assert len(slow) > dispatcher.MOST_UNDER_WAY
    ends = asyncio.Event()

    class Mixed:
        known = False
        most = under_way = 0
        sent: set[int] = set()  # noqa: RUF012 - one test's

        async def send(self, message: Message, _address: str, _secrets: Sequence[str]) -> SendResult:
            number = message.subscription.id
            self.sent.add(number)
            if number in slow and self.known:
                self.under_way += 1
                self.most = max(self.most, self.under_way)
                await ends.wait()
            return replace(ARRIVED, took_ms=3_000) if number in slow else ARRIVED

    sender = Mixed()
    made, _ = hindered(harness, lambda *_: None, senders=dict.fromkeys(Target, sender))
    harness.fire()
    while harness.step(made):
        pass
    assert sender.sent == slow
    sender.known = True

    async def live() -> None:
        async with running(made):
            harness.clock.ns += 2 * S
            harness.fire()
            made.wake()
            await until(lambda: sender.under_way)
            healthy = harness.subscribe(harness.person("bob@example.com"))
            harness.fire()
            made.wake()
            await until(lambda: healthy.id in sender.sent)  # while the slow ones still wait
            assert sender.most == dispatcher.MOST_SLOW
            ends.set()

    asyncio.run(live())


def test_a_free_slot_is_used_while_all_others_are_stalled(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "MOST_UNDER_WAY", 4)
    rows = [harness.subscribe(harness.person()) for _ in range(8)]
    hanging = {row.id for row in rows[:3]}
    ends = asyncio.Event()

    class Mixed:
        sent: list[int] = []  # noqa: RUF012 - one test's

        async def send(self, message: Message, _address: str, _secrets: Sequence[str]) -> SendResult:
            self.sent.append(message.subscription.id)
            if message.subscription.id in hanging:
                await ends.wait()
            return ARRIVED

    sender = Mixed()
    made, _ = hindered(harness, lambda *_: None, senders=dict.fromkeys(Target, sender))

    async def live() -> None:
        async with running(made):
            harness.fire()
            made.wake()
            await until(lambda: len(sender.sent) == len(rows))
            ends.set()

    asyncio.run(live())


def test_deleting_old_rows_delays_nothing(harness: Harness) -> None:
    row = harness.subscribe(harness.person())
    begun, free = threading.Event(), threading.Event()

    def before(name: str, *_: object) -> None:
        if name == "forget_old":
            begun.set()
            free.wait(120)
            raise StoreBusy("not now")

    made, log = hindered(harness, before)

    async def live() -> None:
        async with running(made):
            await until(begun.is_set)
            harness.fire()
            made.wake()
            try:
                await until(lambda: harness.log(row))
            finally:
                free.set()
            await until(lambda: log.events)

    asyncio.run(live())
    assert log.events == ["delivery_log_not_cleaned"]


# -- what is sent, and what is not


def test_an_email_repeated_after_a_crash_is_unchanged(harness: Harness) -> None:
    """Alerts that are not due are removed before sending, so a window that ends in between adds nothing."""
    harness.subscribe(harness.person(), Target.EMAIL, sealed_secret=None, window="hour", at_once=True)

    def before(name: str, *_: object) -> None:
        if name == "record":
            raise RuntimeError("as if the process were gone")

    made, _ = hindered(harness, before)
    harness.fire(severity="critical")
    harness.fire(2, severity="info")
    harness.step(made)
    harness.clock.ns += NANOS_PER_HOUR
    harness.step()
    harness.clock.ns += 2 * S
    harness.step()
    first, again, rest = [message for _, message in harness.sender.sent]
    assert (again.message_id, again.entries) == (first.message_id, first.entries)
    assert len(first.entries) == 1
    assert [entry.alert.severity for entry in rest.entries] == ["info", "info"]


def test_an_email_is_delayed_until_its_remaining_alerts_are_stored(harness: Harness) -> None:
    harness.subscribe(harness.person(), Target.EMAIL, sealed_secret=None, window="hour", at_once=True)

    def before(name: str, *_: object) -> None:
        if name == "return_entries":
            raise StoreBusy("not now")

    made, log = hindered(harness, before)
    harness.fire(severity="critical")
    harness.fire(2, severity="info")
    harness.step(made)
    assert harness.sender.sent == []
    assert log.events == ["message_failed"]
    harness.clock.ns += 61 * S
    harness.step()
    assert [len(message.entries) for _, message in harness.sender.sent] == [1]


def test_expired_alerts_are_not_sent(harness: Harness) -> None:
    row = harness.subscribe(harness.person(), Target.SLACK, sealed_secret=None)
    harness.fire(2)
    harness.clock.ns += 10 * NANOS_PER_DAY
    harness.step()
    assert harness.sender.sent == []
    assert [attempt.code for attempt in harness.log(row)] == ["expired"]
    assert harness.dispatcher.counts[Target.SLACK, "expired"] == 1
    harness.clock.ns += 2 * S
    harness.fire()
    harness.step()
    ((_, note),) = harness.sender.sent
    assert (note.missed, len(note.entries)) == (2, 1)


def test_without_a_sender_messages_are_retried_and_the_operator_notified_once(harness: Harness) -> None:
    rows = [harness.subscribe(harness.person(), Target.EMAIL, sealed_secret=None) for _ in range(2)]
    made, log = hindered(harness, lambda *_: None, senders={Target.HTTPS: harness.sender})
    harness.fire()
    harness.step(made)
    assert [[(a.code, a.outcome) for a in harness.log(row)] for row in rows] == [
        [("mail_not_set_up", "pending")]
    ] * 2
    assert log.events == ["messages_without_sender"]
