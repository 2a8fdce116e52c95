"""The NATS connection: it reconnects, notices stalls, logs no secret, and creates its streams as configured."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from support.engines.jetstream import JetStream
from support.engines.ports import free_ports
from tests.contract.lossy_proxy import Between

from outcry.cluster.calls import BusDown, NobodyServes
from outcry.cluster.nats.link import BusRefused, Link

STREAM = {"name": "X", "subjects": ["x.>"], "storage": "memory"}


class Reports(list[str]):
    """Reports to the operator, one line each."""

    def __call__(self, event: str, **details: object) -> None:
        self.append(f"{event} {details}")


async def became(so: Callable[[], Any]) -> float:
    """Wait until a condition is met; return how long this took."""
    begun_s = time.monotonic()
    async with asyncio.timeout(60):
        while not so():
            await asyncio.sleep(0.01)
    return time.monotonic() - begun_s


def test_a_process_starts_before_the_bus_and_its_operator_is_told_once_each_way() -> None:
    reports = Reports()

    async def run(server: JetStream) -> None:
        async with Link(server.urls, reports) as link:
            with pytest.raises(BusDown):
                _ = link.client
            with pytest.raises(BusDown):
                await link.request("x")
            await became(lambda: reports)
            await asyncio.sleep(0.6)  # it is retried, but not reported again
            assert [line.split(" {")[0] for line in reports] == ["nats_disconnected"]
            server.start(0)
            await became(lambda: link.connected)
            assert [line.split(" {")[0] for line in reports] == ["nats_disconnected", "nats_reconnected"]

    with JetStream() as server:
        server.kill(0)
        asyncio.run(run(server))


def test_a_link_that_stands_still_is_noticed_and_subscriptions_outlive_it(jetstream: JetStream) -> None:
    async def run(line: Between) -> None:
        async with Link(line.url, Reports()) as link:
            await link.up()
            received: list[bytes] = []

            async def hear(message: Any) -> None:
                received.append(message.data)

            await link.client.subscribe("said", cb=hear)
            for expected in (False, True):
                line.hold(answers_only=expected)
                with pytest.raises(BusDown):
                    await link.request("$JS.API.INFO", timeout_s=3600)
                assert time.monotonic() - link.received_at_s > 1
                line.cut()
                line.go_on()
                await became(lambda: link.connected)
                await link.client.publish("said", b"%d" % expected)
                await became(lambda expected=expected: received[-1:] == [b"%d" % expected])

    with Between(jetstream.ports[0]) as line:
        asyncio.run(run(line))


def test_where_nobody_listens_is_said_at_once(jetstream: JetStream) -> None:
    async def run() -> None:
        async with Link(jetstream.urls, Reports()) as link:
            await link.up()
            with pytest.raises(NobodyServes):
                await link.request("nobody", timeout_s=10)
            with pytest.raises(BusRefused, match="stream not found"):
                await link.api("STREAM.INFO.NONE")

    asyncio.run(run())


def test_no_name_and_no_password_is_ever_told() -> None:
    reports = Reports()

    async def run() -> None:
        (port,) = free_ports(1)
        async with Link(
            f"nats://someone:s3cret-w0rd@127.0.0.1:{port},nats://t0ken@127.0.0.1:{port}", reports
        ) as link:
            await became(lambda: reports)
            with pytest.raises(BusDown) as problem:
                await link.request("x")
            assert "s3cret" not in repr(problem.value)

    asyncio.run(run())
    assert not any(word in line for line in reports for word in ("s3cret", "someone", "t0ken"))
    with pytest.raises(ValueError, match="no host") as problem:
        Link("nats://someone:s3cret-w0rd@", reports)
    assert "s3cret" not in str(problem.value)


def test_an_address_that_says_tls_is_not_used_without(jetstream: JetStream) -> None:
    reports = Reports()

    async def run() -> None:
        async with Link(jetstream.urls.replace("nats://", "tls://"), reports) as link:
            await became(lambda: reports)
            assert not link.connected

    asyncio.run(run())
    assert "does not ask for it" in reports[0]


def test_processes_that_make_a_stream_at_once_have_one_and_it_is_changed_where_it_can_be(
    jetstream: JetStream,
) -> None:
    reports = Reports()

    async def make(config: dict[str, Any]) -> Any:
        async with Link(jetstream.urls, reports) as link:
            await link.up()
            await link.ensure_stream(config)
            return (await link.api("STREAM.INFO.X"))["config"]

    async def run() -> None:
        made = await asyncio.gather(*(make({**STREAM, "max_msgs_per_subject": n % 2 + 1}) for n in range(8)))
        assert {one["storage"] for one in made} == {"memory"}
        assert (await make({**STREAM, "max_msgs_per_subject": 5}))["max_msgs_per_subject"] == 5
        assert reports == []
        assert (await make({**STREAM, "storage": "file"}))["storage"] == "memory"
        assert len(reports) == 1
        assert "storage" in reports[0]

    asyncio.run(run())


def test_three_servers_keep_it_three_times(jetstream_cluster: JetStream) -> None:
    async def run() -> None:
        async with Link(jetstream_cluster.urls, Reports()) as link:
            await link.up()
            async with asyncio.timeout(90):
                while True:
                    try:
                        await link.ensure_stream(STREAM)
                        break
                    except BusDown:  # they have just started
                        await asyncio.sleep(0.1)
            assert (await link.api("STREAM.INFO.X"))["config"]["num_replicas"] == 3
        reports = Reports()
        async with Link(jetstream_cluster.urls.split(",")[0], reports) as link:
            await link.up()
            assert len(reports) == 1
            assert reports[0].startswith("nats_servers_few")

    asyncio.run(run())
