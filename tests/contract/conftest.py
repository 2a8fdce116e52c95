"""Real servers for the suites: one of each kind per worker, started by the first test that needs it."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import nats
import pytest
from support.engines.jetstream import JetStream
from support.engines.postgres import Postgres
from tests.contract.databases import KINDS, Place, Places


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A server; a test that stops it starts it again."""
    with Postgres() as server:
        yield server


@pytest.fixture(scope="session")
def places(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Places:
    """Makes databases. The server is started by the first that needs it."""
    return Places(tmp_path_factory.mktemp("template"), lambda: request.getfixturevalue("postgres"))


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, places: Places, tmp_path: Path) -> Iterator[Place]:
    """A database of the test's own, migrated."""
    with places.place(request.param, tmp_path) as made:
        yield made


@pytest.fixture(params=KINDS)
def empty_place(request: pytest.FixtureRequest, places: Places, tmp_path: Path) -> Iterator[Place]:
    """An empty one."""
    with places.place(request.param, tmp_path, migrated=False) as made:
        yield made


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
