"""`outcry serve`: run the service, or one process of a cluster."""

import os
import sys
import threading
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Literal

from outcry.app.application import build_application
from outcry.app.installation import Installation, open_installation
from outcry.app.live import tails
from outcry.app.people import People
from outcry.app.settings import BadSettings, Settings, read_settings
from outcry.cli.demo import Serving, demo_settings, open_demo
from outcry.cli.set_up import set_up_notice
from outcry.cli.whereabouts import address, remove_address, write_address
from outcry.database.errors import StoreBusy
from outcry.http.server import Binding
from outcry.http.server import serve as run

#: Interval between attempts to reach an unavailable database.
_AGAIN_S = 1.0


def serve(
    *, host: str | None = None, port: int | None = None, data: str | None = None, demo: bool = False,
    market: Literal["hyperliquid"] | None = None, accept_terms: bool = False, owner: str = "",
    role: str | None = None, cluster: str | None = None, database: str | None = None,
) -> int:  # fmt: skip
    """Run the service until interrupted, in one process or as part of a cluster.

    On shutdown the service finishes open requests first. It logs requests and events to standard error as JSON lines
    (docs/reference/logs.md). To run several processes together, see docs/guides/cluster.md.

    Parameters
    ----------
    host
        IP address or host name to listen on. Default: 127.0.0.1.
    port
        Port to listen on; 0 selects a free port. Default: 8000.
    data
        Data folder. Default: OUTCRY_DATA.
    demo
        Serve a simulated market with 20 past sessions and a live session in every product, on any day. The demo needs
        its own data folder. Each start deletes the simulated data of the previous one.
    market
        Serve a free live market: perpetual futures of Hyperliquid, around the clock and without an account. It has its
        own data folder. The first start shows the vendor's terms and asks whether you accept them.
    accept_terms
        Accept the vendor's terms of --market, where no terminal can ask.
    owner
        Email address of the user to whom the data of --market belongs; used by the first start. Create your account
        with the same address to see the market on the pages. Default: me@localhost.localdomain.
    role
        Roles of this process in a cluster: api, web, engine, feeds and deliver, comma-separated. Default: OUTCRY_ROLE,
        or all roles.
    cluster
        URLs of the NATS servers of the cluster, such as nats://a:4222,nats://b:4222. Default: OUTCRY_CLUSTER.
    database
        URL of PostgreSQL, such as postgresql://user@host/outcry. Default: OUTCRY_DATABASE_URL. Set the variable if the
        URL has a password: other users of the machine can see arguments.
    """
    settings = read_settings(
        data=data, host=host, port=port, role=role, cluster=cluster, database_url=database
    )
    if (demo or market) and settings.cluster:
        raise BadSettings(
            f"{'--demo' if demo else '--market'} needs a single process. Remove it, or --cluster and OUTCRY_CLUSTER."
        )
    if demo and market:
        raise BadSettings("Choose either --demo or --market.")
    chosen = data is not None or "OUTCRY_DATA" in os.environ
    tables_folder = settings.folder
    if demo:
        settings = demo_settings(settings, chosen=chosen)
    binding = Binding(
        host=settings.host, port=settings.port, fastpath=settings.fastpath,
        trusted_proxies=settings.trusted_proxies or None, connections_per_client=settings.connections_per_client,
    )  # fmt: skip
    opened = open_demo(settings, tables_folder) if demo else _open(settings)
    if market:
        from outcry.cli.market import market_settings, open_market  # noqa: PLC0415 - needed by this market only

        settings = market_settings(settings, chosen=chosen)
        opened = open_market(settings, owner.strip(), accepted=accept_terms)
    with opened as (installation, feeds, greet):
        # Several processes may share a folder, which has room for one URL file only.
        alone = not settings.cluster

        def started(host: str, port: int) -> None:
            if alone:
                write_address(settings.folder, address(host, port))
            greet(host, port, served.people)

        def stopping() -> None:
            if alone:
                remove_address(settings.folder)

        served = build_application(installation, feeds)
        try:
            with installation.disk.watched():
                run(served.application, binding, started, stopping)
        except SystemExit:  # uvicorn has logged the reason
            where = f"{settings.host}:{settings.port}"
            print(
                f"outcry: Cannot listen on {where}: the port is in use, or the address is not one of this machine. "
                "Choose another with --port or --host.",
                file=sys.stderr,
            )
            return 1
    return 0


@contextmanager
def _open(settings: Settings) -> Generator[Serving]:
    """Open the installation to serve. A single process also locks the log in its data folder."""
    with ExitStack() as held:
        installation = _opened(settings, held)
        if not settings.cluster:
            held.enter_context(installation.log.exclusively())
        if "engine" in settings.roles:
            threading.Thread(
                target=_add_digests, args=(installation,), name="outcry-digests", daemon=True
            ).start()
        feeds = tails(installation) if "feeds" in settings.roles else []
        yield Serving(installation, feeds, partial(_greet, installation))


def _add_digests(installation: Installation) -> None:
    """Verify the tape files that have no stored checksum, and store one for each. Runs beside the service."""
    try:
        if not installation.store.without_digest():
            return
        from outcry.recordings.verification import add_digests  # noqa: PLC0415 - few need it, imports databento-dbn

        for fault in add_digests(installation.store, installation.tape):
            print(f"outcry: {fault}", file=sys.stderr, flush=True)
    except StoreBusy as problem:  # the next start continues
        print(
            f"outcry: Checksums are missing for some tape files: {problem} Outcry adds them at the next start.",
            file=sys.stderr,
            flush=True,
        )


def _opened(settings: Settings, held: ExitStack) -> Installation:
    """Open the installation. In a cluster, wait for the database, because processes may start in any order."""
    waits = False
    while True:
        try:
            return held.enter_context(open_installation(settings))
        except StoreBusy as problem:
            if not settings.cluster:
                raise
            if not waits:
                print(f"outcry: {problem} Retrying until it is available.", file=sys.stderr, flush=True)
            waits = True
            time.sleep(_AGAIN_S)


def _greet(installation: Installation, host: str, port: int, people: People) -> None:
    print(
        f"Outcry is running at {address(host, port)} (data folder: {installation.settings.folder})",
        file=sys.stderr,
        flush=True,
    )
    if "web" in installation.settings.roles:
        notice = set_up_notice(installation.settings.folder, people.first_run, address(host, port))
        print(notice, end="", file=sys.stderr, flush=True)
