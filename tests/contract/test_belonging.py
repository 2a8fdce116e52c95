"""A bus belongs to one installation: it stores the id of the first, and any other waits."""

import asyncio
from collections.abc import Iterator

import pytest
from support.engines.jetstream import JetStream
from support.engines.ports import free_ports
from tests.timeouts import until, within

from outcry.base.log_events import discard
from outcry.cluster.nats.installation import STREAM, claim_bus
from outcry.cluster.nats.link import Link
from outcry.cluster.nats.message_store import MessageStore, StoredMessage


@pytest.fixture
def bus() -> Iterator[JetStream]:
    with JetStream() as server:
        yield server


async def settled(url: str, mark: str, report=discard) -> None:
    async with Link(url, report) as link:
        await claim_bus(link, mark, report)


async def ended(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_of_many_that_come_at_once_all_of_one_mark_belong_and_the_mark_outlives_them(bus: JetStream) -> None:
    async def run() -> None:
        await within(asyncio.gather(*(settled(bus.urls, "ours") for _ in range(8))), 60)
        await within(settled(bus.urls, "ours"), 60)

    asyncio.run(run())
    bus.kill(0)
    bus.start(0)
    asyncio.run(within(settled(bus.urls, "ours"), 60))


def test_a_lost_answer_delays_a_process_by_little(bus: JetStream, monkeypatch: pytest.MonkeyPatch) -> None:
    """JetStream loses requests while its servers elect a leader, so a process asks again soon."""
    ask, asked = MessageStore.newest, list[str]()

    async def newest(store: MessageStore, subject: str) -> StoredMessage | None:
        asked.append(subject)
        if len(asked) == 1:
            await asyncio.sleep(3600)
        return await ask(store, subject)

    monkeypatch.setattr(MessageStore, "newest", newest)
    reports: list[str] = []

    def report(_event: str, **details: object) -> None:
        reports.append(str(details["problem"]))

    asyncio.run(within(settled(bus.urls, "ours", report), 60))
    assert reports == ["JetStream does not answer"]


def test_of_two_marks_that_come_at_once_one_belongs(bus: JetStream) -> None:
    async def run() -> None:
        both = {asyncio.create_task(settled(bus.urls, mark)) for mark in ("ours", "theirs")}
        await asyncio.wait(both, timeout=60, return_when=asyncio.FIRST_COMPLETED)
        done, waiting = await asyncio.wait(both, timeout=1.5)
        assert (len(done), len(waiting)) == (1, 1)
        await ended(*waiting)

    asyncio.run(run())


def test_another_is_told_once_what_to_do_and_takes_part_once_it_may(bus: JetStream) -> None:
    reports: list[tuple[str, str]] = []

    def report(event: str, **details: object) -> None:
        reports.append((event, str(details["problem"])))

    async def run() -> None:
        await within(settled(bus.urls, "ours"), 60)
        other = asyncio.create_task(settled(bus.urls, "theirs", report))
        async with asyncio.timeout(60):
            await until(lambda: reports)
        await asyncio.sleep(2.5)  # it checks again without a further report
        assert not other.done()
        ((event, problem),) = reports
        assert event == "cluster_not_joined"
        assert "OUTCRY_SECRET" in problem
        async with Link(bus.urls, discard) as link:
            await link.up()
            await link.api(f"STREAM.DELETE.{STREAM['name']}")
        await within(other, 60)

    asyncio.run(run())


def test_a_bus_that_is_away_is_waited_for() -> None:
    async def run() -> None:
        (nowhere,) = free_ports(1)
        waiting = asyncio.create_task(settled(f"nats://127.0.0.1:{nowhere}", "ours"))
        await asyncio.sleep(1.0)
        assert not waiting.done()
        await ended(waiting)

    asyncio.run(run())
