"""A single connection, against servers that send more than requested."""

import asyncio
import ssl
import tracemalloc

import aiohttp
import pytest
from aiohttp.client_proto import ResponseHandler
from aiohttp.streams import DataQueue
from tests.delivery.conftest import Run
from tests.delivery.loopback import (
    HEADERS,
    OK_ANSWER,
    Authority,
    Behaviour,
    Names,
    OutsideRule,
    Visit,
    kind,
    leaving,
    serving,
)
from tests.timeouts import until, within

from outcry.delivery.egress import Limits

RULE = OutsideRule()
GONE = b"HTTP/1.1 410 Gone\r\nContent-Length: 6\r\n\r\npoison"
CHUNKED = b"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n"
FLOODS = {
    "interim answers": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 500, None),
    "interim answers with heads": (b"", b"HTTP/1.1 103 Early Hints\r\n" + b"Link: </x>\r\n" * 100 + b"\r\n", None),
    "a line": (b"HTTP/1.1 200 ", b"a" * 8000, None),
    "fields": (b"HTTP/1.1 200 OK\r\n", b"a: b\r\n" * 100, None),
    "an extension of a chunk": (CHUNKED + b"1;", b"e" * 60_000, 500),
    "extensions of chunks": (CHUNKED, (b"1;" + b"e" * 4000 + b"\r\na\r\n") * 10, 500),
    "a trailer": (CHUNKED + b"1\r\na\r\n0\r\n", (b"T: " + b"b" * 1000 + b"\r\n") * 10, 500),
    "answers": (b"", OK_ANSWER * 500, 200),
}  # fmt: skip


def flooding(begin: bytes, part: bytes) -> Behaviour:
    async def behave(visit: Visit) -> None:
        await visit.request()
        await visit.say(begin)
        while True:
            await visit.say(part)

    return behave


@pytest.mark.parametrize("flood", FLOODS)
def test_a_flood_of_whatever_kind_ends_the_connection(
    run: Run, context: ssl.SSLContext, authority: Authority, flood: str
) -> None:
    """Memory stays bounded, and the reply has the status received before the flood."""
    begin, part, status = FLOODS[flood]

    async def trial() -> None:
        async with (
            serving(flooding(begin, part), context) as server,
            leaving(RULE, Names(), authority.trust()) as egress,
        ):
            reply = await egress.post(server.url(), b"{}", HEADERS)
            await within(server.left.acquire(), 30)
            assert (reply.code, reply.status) == ("ok" if status else "bad_response", status)
            assert server.sent < 8 * 1024 * 1024

    tracemalloc.start()
    try:
        run(trial())
        assert tracemalloc.get_traced_memory()[1] < 20 * 1024 * 1024
    finally:
        tracemalloc.stop()


def test_messages_arrive_beside_twenty_that_flood(run: Run, authority: Authority) -> None:
    async def trial() -> None:
        context = authority.context("*.mysite.dev")
        begin, part, _ = FLOODS["interim answers"]
        limits = Limits(connect_s=20, total_s=20)
        async with (
            serving(flooding(begin, part), context) as bad,
            serving(kind, context, "127.0.0.3") as good,
            leaving(RULE, Names({"good.mysite.dev": [("127.0.0.3",)]}), authority.trust(), limits) as egress,
        ):
            assert (await egress.post(good.url("good.mysite.dev"), b"{}", HEADERS)).code == "ok"
            floods = [
                asyncio.create_task(egress.post(bad.url(f"bad{at}.mysite.dev"), b"{}", HEADERS))
                for at in range(20)
            ]
            arrived = 0
            while not all(task.done() for task in floods):
                assert (await egress.post(good.url("good.mysite.dev"), b"{}", HEADERS)).code == "ok"
                arrived += 1
            assert {task.result().code for task in floods} == {"bad_response"}
            # The second one arrived while at least one still flooded. Floods end too soon to expect many more.
            assert arrived > 1, "a message waits for those that flood"

    run(trial())


UNASKED = {
    "when it is idle": (OK_ANSWER, GONE),
    "a part, when it is idle": (OK_ANSWER, b"H"),
    "with the answer": (OK_ANSWER + GONE, b""),
    "with the end of the answer": (OK_ANSWER[:-1], b"k" + GONE),
    "with the end of a chunked one": (CHUNKED + b"1\r\na\r\n", b"0\r\n\r\n" + GONE),
}  # fmt: skip


@pytest.mark.parametrize("when", UNASKED)
def test_unrequested_data_is_not_the_next_response(
    run: Run, context: ssl.SSLContext, authority: Authority, when: str
) -> None:
    first, then = UNASKED[when]

    async def trial() -> None:
        begun = asyncio.Event()

        async def behave(visit: Visit) -> None:
            if len(visit.server.reached) > 1:
                return await kind(visit)
            await visit.request()
            await visit.say(first)
            await begun.wait()
            await visit.say(then)
            await visit.reader.read(1)
            return None

        async with serving(behave, context) as server, leaving(RULE, Names(), authority.trust()) as egress:
            posting = asyncio.create_task(egress.post(server.url(path="/theirs"), b"{}", HEADERS))
            if first == OK_ANSWER:
                assert (await posting).body == b"ok"
            begun.set()
            await within(server.left.acquire(), 30)
            assert (await posting).status in {200, 500}
            reply = await egress.post(server.url(path="/mine"), b"{}", HEADERS)
            assert (reply.code, reply.status, reply.body) == ("ok", 200, b"ok")
            assert len(server.reached) == 2

    run(trial())


def test_received_but_unread_data_counts_too(context: ssl.SSLContext, authority: Authority) -> None:
    """Runs on the asyncio loop, because it writes immediately."""

    async def trial() -> None:
        visits: list[Visit] = []

        async def behave(visit: Visit) -> None:
            visits.append(visit)
            await kind(visit)

        async with serving(behave, context) as server, leaving(RULE, Names(), authority.trust()) as egress:
            await egress.post(server.url(), b"{}", HEADERS)
            visits[0].writer.write(GONE)
            reply = await egress.post(server.url(), b"{}", HEADERS)
            assert (reply.code, reply.status) == ("ok", 200)
            assert len(server.reached) == 2

    with asyncio.Runner() as runner:
        runner.run(within(trial(), 60))


def test_an_idle_connection_is_reused(run: Run, context: ssl.SSLContext, authority: Authority) -> None:
    async def trial() -> None:
        async with serving(kind, context) as server, leaving(RULE, Names(), authority.trust()) as egress:
            for _ in range(20):
                reply = await egress.post(server.url(), b"{}", HEADERS)
                assert (reply.code, reply.status, reply.body) == ("ok", 200, b"ok")
            assert len(server.reached) == 1

    run(trial())


@pytest.mark.parametrize("answers", [("127.0.0.2", "127.0.0.3"), ("127.0.0.3", "127.0.0.2")])
def test_slots_are_used_at_the_connected_address_only(
    run: Run, context: ssl.SSLContext, authority: Authority, answers: tuple[str, str]
) -> None:
    """A name resolves to its owner's stalled server, and to another server, where its port is closed."""

    async def trial() -> None:
        async def hang(visit: Visit) -> None:
            await visit.request()
            await visit.reader.read()

        names = Names({"other.mysite.dev": [answers], "hooks.mysite.dev": [("127.0.0.3",)]})
        limits = Limits(connect_s=6, total_s=6, slot_wait_s=0.3, at_address=4)
        async with (
            serving(hang, context) as theirs,
            serving(kind, context, "127.0.0.3") as ours,
            leaving(RULE, names, authority.trust(), limits) as egress,
        ):
            url = theirs.url("other.mysite.dev")
            hanging = [asyncio.create_task(egress.post(url, b"{}", HEADERS)) for _ in range(4)]
            await until(lambda: len(theirs.heads) >= 4)
            for _ in range(2):  # over a new connection, and over a reused one
                assert (await egress.post(ours.url(), b"{}", HEADERS)).code == "ok"
            # Its slots are used, so the other address is tried, which is closed.
            if answers[0] == "127.0.0.2":
                assert (await egress.post(url, b"{}", HEADERS)).code == "connect_refused"
            for task in hanging:
                task.cancel()
            await asyncio.gather(*hanging, return_exceptions=True)
            async with serving(kind, context, port=0) as after:
                assert (await egress.post(after.url("127.0.0.2"), b"{}", HEADERS)).code == "ok"

    run(trial())


def test_a_reused_connection_waits_for_a_slot_at_its_own_address(
    run: Run, context: ssl.SSLContext, authority: Authority
) -> None:
    async def trial() -> None:
        released = asyncio.Event()

        async def slow(visit: Visit) -> None:
            await visit.request()
            await visit.say(OK_ANSWER)
            await visit.request()
            await released.wait()
            await visit.say(OK_ANSWER)
            await visit.reader.read()

        limits = Limits(connect_s=6, total_s=6, slot_wait_s=0.2, at_address=1)
        async with (
            serving(slow, context) as one,
            serving(kind, context) as other,
            leaving(RULE, Names(), authority.trust(), limits) as egress,
        ):
            for server in (one, other):
                assert (await egress.post(server.url(), b"{}", HEADERS)).code == "ok"
            waiting = asyncio.create_task(egress.post(one.url(), b"{}", HEADERS))
            await until(lambda: len(one.heads) >= 2)
            reply = await egress.post(other.url(), b"{}", HEADERS)
            assert (reply.code, len(other.heads)) == ("too_busy", 1)
            released.set()
            assert (await waiting).code == "ok"
            assert (await egress.post(other.url(), b"{}", HEADERS)).code == "ok"
            assert len(other.reached) == 1

    run(trial())


def test_aiohttp_still_has_the_parts_that_are_extended(run: Run, authority: Authority) -> None:
    """`GuardedConnection` and `GuardedConnector` extend these. Without them, aiohttp would ignore the guard."""

    async def trial() -> None:
        for name in ("connection_made", "data_received", "set_response_params", "is_connected"):
            assert callable(getattr(ResponseHandler, name))
        assert issubclass(ResponseHandler, DataQueue)
        assert "feed_data" in vars(DataQueue)
        async with aiohttp.ClientSession() as session:
            assert isinstance(session.connector, aiohttp.TCPConnector)
            assert session.connector._factory.func is ResponseHandler  # pyright: ignore[reportPrivateUsage]
        assert authority.trust().sslobject_class is ssl.SSLObject

    run(trial())
