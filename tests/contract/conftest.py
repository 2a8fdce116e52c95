"""Real servers for the suites, one of each kind a worker, started when the first test asks for it."""

import asyncio
from collections.abc import Iterator

import nats
import pytest
from tests.engines.jetstream import JetStream


@pytest.fixture(scope="session")
def jetstream_server() -> Iterator[JetStream]:
    """One NATS server, with whatever was left there."""
    with JetStream() as server:
        yield server


@pytest.fixture
def jetstream(jetstream_server: JetStream) -> JetStream:
    """One NATS server, with nothing in it."""
    asyncio.run(_emptied(jetstream_server))
    return jetstream_server


@pytest.fixture
def jetstream_cluster() -> Iterator[JetStream]:
    """Three NATS servers that vote, of the test's own: it may kill one."""
    with JetStream(3) as servers:
        yield servers


async def _emptied(server: JetStream) -> None:
    async with await nats.connect(server.urls) as client:
        jetstream = client.jetstream()
        for stream in await jetstream.streams_info():
            await jetstream.delete_stream(str(stream.config.name))
