"""Real servers of the contract suites: one of each kind per worker, started by the first test that needs it."""

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
    """Return the PostgreSQL server; a test that stops it starts it again."""
    with Postgres() as server:
        yield server


@pytest.fixture(scope="session")
def places(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Places:
    """Return the database factory of each engine; the first one that needs the server starts it."""
    return Places(tmp_path_factory.mktemp("template"), lambda: request.getfixturevalue("postgres"))


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, places: Places, tmp_path: Path) -> Iterator[Place]:
    """Return a migrated database of the test."""
    with places.place(request.param, tmp_path) as made:
        yield made


@pytest.fixture(params=KINDS)
def empty_place(request: pytest.FixtureRequest, places: Places, tmp_path: Path) -> Iterator[Place]:
    """Return an empty database of the test."""
    with places.place(request.param, tmp_path, migrated=False) as made:
        yield made


@pytest.fixture(scope="session")
def jetstream_server() -> Iterator[JetStream]:
    """Return the NATS server, with the data of earlier tests."""
    with JetStream() as server:
        yield server


@pytest.fixture
def jetstream(jetstream_server: JetStream) -> JetStream:
    """Return the NATS server without data."""
    asyncio.run(_emptied(jetstream_server))
    return jetstream_server


@pytest.fixture
def jetstream_cluster() -> Iterator[JetStream]:
    """Start a cluster of three NATS servers for one test, which may kill one."""
    with JetStream(3) as servers:
        yield servers


async def _emptied(server: JetStream) -> None:
    async with await nats.connect(server.urls) as client:
        jetstream = client.jetstream()
        for stream in await jetstream.streams_info():
            await jetstream.delete_stream(str(stream.config.name))
