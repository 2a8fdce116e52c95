"""`outcry serve` and `migrate`: running the service."""

import os
import sys
import threading
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from functools import partial

from outcry.cli.demo import Serving, demo_settings, open_demo
from outcry.cli.set_up import set_up_notice
from outcry.cli.warming import warm_up
from outcry.cli.whereabouts import address, say, unsay
from outcry.ports.store import StoreBusy
from outcry.services.verification import add_digests
from outcry.settings import BadSettings, Settings, read_settings
from outcry.store.migrate import current
from outcry.wiring import House, open_house

#: How often a database that is not there is tried.
_AGAIN_S = 1.0


def serve(
    *, host: str | None = None, port: int | None = None, data: str | None = None, demo: bool = False,
    role: str | None = None, cluster: str | None = None, database: str | None = None,
) -> int:  # fmt: skip
    """Run the service until interrupted: all of it in one process, or its part of a cluster's.

    Answers under way are finished before it ends. Requests are logged to standard error, a JSON line each.
    docs/cluster.md tells how many processes serve together.

    Parameters
    ----------
    host
        The address to listen on; 127.0.0.1 unless set.
    port
        The port; 8000 unless set, 0 for any free one.
    data
        The data folder; otherwise OUTCRY_DATA.
    demo
        Serve an invented market: twenty past sessions and a live one in every product, whatever the day. Its data
        folder holds nothing else; what it invented before is thrown away at each start.
    role
        What this process does of a cluster's work: any of api, web, engine, feeds, deliver, comma-separated; all of it
        unless set. Otherwise OUTCRY_ROLE.
    cluster
        The NATS servers that the processes of a cluster work together by, nats://a:4222,nats://b:4222; otherwise
        OUTCRY_CLUSTER.
    database
        The address of PostgreSQL, postgresql://user@host/outcry; otherwise OUTCRY_DATABASE_URL, which a password
        belongs in, for a command line can be read by others on this machine.
    """
    from outcry.http.server import Binding  # noqa: PLC0415 - the other commands do without a web server
    from outcry.http.server import serve as run  # noqa: PLC0415 - the other commands do without a web server

    settings = read_settings(
        data=data, host=host, port=port, role=role, cluster=cluster, database_url=database
    )
    if demo and settings.cluster:
        raise BadSettings("a demonstration is one process by itself: leave out the cluster")
    if demo:
        settings = demo_settings(settings, chosen=data is not None or "OUTCRY_DATA" in os.environ)
    binding = Binding(
        host=settings.host, port=settings.port, fastpath=settings.fastpath,
        trusted_proxies=settings.trusted_proxies or None, connections_per_client=settings.connections_per_client,
    )  # fmt: skip
    with open_demo(settings) if demo else _open(settings) as (house, feeds, greet):
        alone = not settings.cluster  # of several that share a folder none is the one to ask

        def started(host: str, port: int) -> None:
            if alone:
                say(settings.folder, address(host, port))
            greet(host, port)

        def stopping() -> None:
            if alone:
                unsay(settings.folder)

        application = house.application(feeds)
        if settings.roles & {"api", "web"}:
            warm_up(house, application.edge.journal)
        try:
            with house.disk.watched():
                run(application, binding, started, stopping)
        except SystemExit:  # the server has logged why it could not start
            where = f"{settings.host}:{settings.port}"
            print(
                f"outcry: cannot serve on {where}: in use, or not ours? --port chooses another",
                file=sys.stderr,
            )
            return 1
    return 0


@contextmanager
def _open(settings: Settings) -> Generator[Serving]:
    """A house to serve from, the log in its folder held; in a cluster the log is elsewhere."""
    with ExitStack() as held:
        house = _opened(settings, held)
        if not settings.cluster:
            held.enter_context(house.log.exclusively())
        if "engine" in settings.roles:
            threading.Thread(target=_add_digests, args=(house,), name="outcry-digests", daemon=True).start()
        yield Serving(house, house.tails() if "feeds" in settings.roles else [], partial(_greet, house))


def _add_digests(house: House) -> None:
    """Verify the tape files of an earlier Outcry beside the service, and store their digests."""
    try:
        for fault in add_digests(house.store, house.tape):
            print(f"outcry: {fault}", file=sys.stderr, flush=True)
    except StoreBusy as problem:  # the next start goes on
        print(f"outcry: digests of tape files were not added: {problem}", file=sys.stderr, flush=True)


def _opened(settings: Settings, held: ExitStack) -> House:
    """A house. The parts of a cluster come in any order: there its database is waited for."""
    waits = False
    while True:
        try:
            return held.enter_context(open_house(settings))
        except StoreBusy as problem:
            if not settings.cluster:
                raise
            if not waits:
                print(f"outcry: {problem}. Waiting for it", file=sys.stderr, flush=True)
            waits = True
            time.sleep(_AGAIN_S)


def _greet(house: House, host: str, port: int) -> None:
    print(
        f"Outcry answers at {address(host, port)} (data in {house.settings.folder})",
        file=sys.stderr,
        flush=True,
    )
    if "web" in house.settings.roles:
        print(set_up_notice(house, address(host, port)), end="", file=sys.stderr, flush=True)


def migrate_database(*, data: str | None = None) -> int:
    """Bring the database to this version's schema, and give tape files and rows of an earlier Outcry their digests and
    checksums, once each was verified as far as it can be. `serve` does both by itself.

    A tape file that is not what was stored is named on standard error, and the exit status is 1.

    Parameters
    ----------
    data
        The data folder; otherwise OUTCRY_DATA.
    """
    with open_house(read_settings(data=data)) as house:
        print(f"database at migration {current(house.engine)}")
        rows = house.store.add_checksums()
        faults = list(add_digests(house.store, house.tape))
    if rows:
        print(f"checksums added to {rows} rows")
    for fault in faults:
        print(f"outcry: {fault}", file=sys.stderr)
    return 1 if faults else 0
