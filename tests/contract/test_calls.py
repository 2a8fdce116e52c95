"""Contract of calls between processes, over a real NATS server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from support.engines.jetstream import JetStream
from tests.contract.conditions import soon
from tests.timeouts import until, within

from outcry.cluster.calls import BusDown, CallRefused, NobodyServes
from outcry.cluster.nats.calls import NatsCalls
from outcry.cluster.nats.link import Link

MIB = 1 << 20


@asynccontextmanager
async def caller(
    server: JetStream, reports: list[tuple[str, object]] | None = None
) -> AsyncIterator[NatsCalls]:
    """Calls of one process; told: the reports to its operator."""

    def tell(event: str, **details: object) -> None:
        if reports is not None:
            reports.append((event, details))

    async with Link(server.urls, tell) as link:
        await within(link.up(), 60)
        yield NatsCalls(link, tell)


async def echo(body: bytes) -> bytes:
    return b"heard " + body


def run(work: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(within(work(), 180))  # type: ignore[arg-type]


def test_a_call_is_answered_by_who_serves_its_name(jetstream: JetStream) -> None:
    async def main() -> None:
        async with (
            caller(jetstream) as one,
            caller(jetstream) as other,
            one.serve("push.17", echo),
            one.serve("push.18", lambda _: echo(b"eighteen")),
        ):
            assert await other.ask("push.17", b"x", 60) == b"heard x"
            assert await other.ask("push.18", b"x", 60) == b"heard eighteen"
            assert await one.ask("push.17", b"", 60) == b"heard "

    run(main)


def test_nobody_serving_is_told_at_once(jetstream: JetStream) -> None:
    async def main() -> None:
        async with caller(jetstream) as one, caller(jetstream) as other:
            with pytest.raises(NobodyServes):
                await other.ask("push.1", b"", 3600)
            async with one.serve("push.1", echo):
                assert await other.ask("push.1", b"x", 60) == b"heard x"
            with pytest.raises(NobodyServes):
                await other.ask("push.1", b"", 3600)

    run(main)


def test_a_refusal_arrives_in_its_own_words(jetstream: JetStream) -> None:
    async def refuse(_: bytes) -> bytes:
        raise CallRefused("unknown_instrument", {"symbol": "ÅÄÖ", "from": [1, 2.5, None, True]})

    async def main() -> None:
        async with caller(jetstream) as one, caller(jetstream) as other, one.serve("push.1", refuse):
            with pytest.raises(CallRefused) as refusal:
                await other.ask("push.1", b"", 60)
            assert refusal.value.code == "unknown_instrument"
            assert refusal.value.details == {"symbol": "ÅÄÖ", "from": [1, 2.5, None, True]}

    run(main)


def test_a_fault_is_told_to_the_operator_and_not_to_who_asked(jetstream: JetStream) -> None:
    async def fail(body: bytes) -> bytes:
        if body == b"bad":
            raise ZeroDivisionError("what nobody foresaw")
        return b"fine"

    async def main() -> None:
        reports: list[tuple[str, object]] = []
        async with caller(jetstream, reports) as one, caller(jetstream) as other, one.serve("push.1", fail):
            with pytest.raises(CallRefused) as refusal:
                await other.ask("push.1", b"bad", 60)
            assert (refusal.value.code, refusal.value.details) == ("fault", {})
            assert await other.ask("push.1", b"", 60) == b"fine"
        assert [event for event, _ in reports] == ["call_failed"]
        assert "what nobody foresaw" in str(reports[0][1])

    run(main)


def test_calls_are_answered_beside_each_other(jetstream: JetStream) -> None:
    async def main() -> None:
        second = asyncio.Event()

        async def answer(body: bytes) -> bytes:
            if body == b"first":
                await second.wait()
            else:
                second.set()
            return body

        async with caller(jetstream) as one, caller(jetstream) as other, one.serve("push.1", answer):
            first = asyncio.create_task(other.ask("push.1", b"first", 60))
            await asyncio.sleep(0)
            assert await other.ask("push.1", b"second", 60) == b"second"
            assert await first == b"first"
            bodies = [f"{number}".encode() for number in range(500)]
            assert await asyncio.gather(*(other.ask("push.1", body, 60) for body in bodies)) == bodies

    run(main)


def test_who_does_not_answer_in_time_is_not_waited_for(jetstream: JetStream) -> None:
    async def never(_: bytes) -> bytes:
        await asyncio.Event().wait()
        return b""

    async def main() -> None:
        async with caller(jetstream) as one, caller(jetstream) as other, one.serve("push.1", never):
            with pytest.raises(BusDown) as problem:
                await other.ask("push.1", b"", 0.2)
            assert not isinstance(problem.value, NobodyServes)

    run(main)


def test_who_waits_as_the_server_of_a_name_ends_is_told_at_once(jetstream: JetStream) -> None:
    async def main() -> None:
        taken = asyncio.Event()

        async def never(_: bytes) -> bytes:
            taken.set()
            await asyncio.Event().wait()
            return b""

        async with caller(jetstream) as one, caller(jetstream) as other:
            async with one.serve("push.1", never):
                waiting = asyncio.create_task(other.ask("push.1", b"", 30))
                await within(taken.wait(), 60)
            with pytest.raises(NobodyServes):
                await within(waiting, 15)

    run(main)


def test_no_call_is_lost_as_a_name_goes_from_one_process_to_the_next(jetstream: JetStream) -> None:
    """Every call is answered or fails at once because no process serves the name: no call times out."""

    async def main() -> None:
        outcomes: list[str] = []

        async with caller(jetstream) as one, caller(jetstream) as two, caller(jetstream) as other:
            over = asyncio.Event()

            async def ask() -> None:
                while not over.is_set():
                    try:
                        await other.ask("push.1", b"", 30)
                        outcomes.append("answered")
                    except NobodyServes:
                        outcomes.append("nobody")
                    except BusDown:
                        outcomes.append("late")

            asking = [asyncio.create_task(ask()) for _ in range(8)]
            for _ in range(10):
                for server in (one, two):
                    async with server.serve("push.1", echo):
                        await other.ask("push.1", b"", 60)
            over.set()
            await within(asyncio.gather(*asking), 60)
        assert set(outcomes) <= {"answered", "nobody"}
        assert outcomes.count("answered") >= 20

    run(main)


def test_a_push_of_four_mebibytes_goes_through_and_one_too_long_is_refused(jetstream: JetStream) -> None:
    async def same(body: bytes) -> bytes:
        return body

    async def main() -> None:
        reports: list[tuple[str, object]] = []
        body = bytes(range(256)) * (4 * MIB // 256)
        async with (
            caller(jetstream, reports) as one,
            caller(jetstream) as other,
            one.serve("push.1", same),
            one.serve("push.2", lambda _: same(bytes(9 * MIB))),
        ):
            assert await other.ask("push.1", body, 60) == body
            with pytest.raises(CallRefused) as refusal:
                await other.ask("push.1", bytes(9 * MIB), 60)
            assert refusal.value.code == "too_long_for_bus"
            assert refusal.value.details == {"bytes": 9 * MIB, "most_bytes": 8 * MIB}
            with pytest.raises(CallRefused, match="fault"):
                await other.ask("push.2", b"", 60)
            assert [event for event, _ in reports] == ["call_reply_too_large"]
            assert await other.ask("push.1", b"x", 60) == b"x"

    run(main)


def test_with_the_bus_away_a_call_fails_at_once_and_all_goes_on_when_it_is_back(jetstream: JetStream) -> None:
    async def main() -> None:
        received: list[bytes] = []
        async with (
            caller(jetstream) as one,
            caller(jetstream) as other,
            one.serve("push.1", echo),
            one.listen("alerts", received.append),
        ):
            jetstream.kill(0)
            with pytest.raises(BusDown):
                await other.ask("push.1", b"", 30)
            await other.tell("alerts", b"lost")
            with pytest.raises(BusDown):
                await other.ask("push.1", b"", 3600)
            async with one.serve("push.2", echo):  # started while the bus is unavailable
                jetstream.start(0)
                assert await soon(lambda: other.ask("push.1", b"x", 60)) == b"heard x"
                assert await soon(lambda: other.ask("push.2", b"x", 60)) == b"heard x"
                await other.tell("alerts", b"back")
                await other.ask("push.1", b"", 60)
                assert await soon(lambda: _first(received)) == b"back"

    run(main)


async def _first(received: list[bytes]) -> bytes:
    if not received:
        raise NobodyServes
    return received[0]


def test_what_is_told_reaches_all_who_listen_and_nobody_else(jetstream: JetStream) -> None:
    async def main() -> None:
        ones: list[bytes] = []
        others: list[bytes] = []
        async with caller(jetstream) as one, caller(jetstream) as other:
            await one.tell("alerts", b"nobody hears it")
            async with one.listen("alerts", ones.append), other.listen("alerts", others.append):
                await one.tell("alerts", b"1")
                await other.tell("alerts.2", b"another name")
                await one.tell("alerts", b"2")
                await until(lambda: len(ones) == len(others) == 2, "both have heard both")
            await one.tell("alerts", b"too late")
        assert ones == others == [b"1", b"2"]

    run(main)
