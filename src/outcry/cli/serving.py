"""`outcry serve`, `migrate`, `doctor`, `backup`: running and keeping the service."""

import os
import shutil
import sqlite3
import sys
import time
from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

from outcry.cli.demo import Serving, demo_settings, open_demo
from outcry.cli.set_up import set_up_notice
from outcry.cli.vaulting import told
from outcry.cli.warming import warm_up
from outcry.cli.whereabouts import address, say, unsay
from outcry.core.snapshot import SnapshotMismatch, load
from outcry.ports.live import LogDamaged, LogInUse
from outcry.ports.store import StoreBusy
from outcry.ports.tape import TapeDamaged
from outcry.services.live.entries import decode
from outcry.settings import BadSettings, Settings, read_settings
from outcry.store.database import sqlite_url
from outcry.store.migrate import current
from outcry.wiring import LOG_FOLDER, SECRET_FILE, House, open_house
from outcry.wiring.vault import VAULT_FILE

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
        yield Serving(house, house.tails() if "feeds" in settings.roles else [], partial(_greet, house))


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
    """Bring the database to this version's schema. `serve` and `import` do it by themselves.

    Parameters
    ----------
    data
        The data folder; otherwise OUTCRY_DATA.
    """
    with open_house(read_settings(data=data)) as house:
        print(f"database at migration {current(house.engine)}")
    return 0


def doctor(*, data: str | None = None) -> int:
    """Check settings, tables, database and every tape file; say what is wrong. Exit status 1 if anything is.

    Parameters
    ----------
    data
        The data folder; otherwise OUTCRY_DATA.
    """
    settings = read_settings(data=data)
    faults = 0
    with open_house(settings) as house:
        print(f"data folder\t{settings.folder}")
        print(f"free space\t{shutil.disk_usage(settings.folder).free // 2**20:,} MiB")
        print(f"products\t{len(house.reference.universe.products)}")
        print(f"database\tmigration {current(house.engine)}, revision {house.store.revision()}")
        if settings.private_hosts:
            print(f"webhooks\tprivate hosts are admitted (for development): {settings.private_hosts}")
        secret = settings.folder / SECRET_FILE
        if secret.exists() and secret.stat().st_mode & 0o077:
            faults += 1
            print(f"fault\t{secret} can be read by others: chmod 600 {secret}")
        for fault in told(house):
            faults += 1
            print(f"fault\t{fault}")
        recordings = house.store.all_recordings()
        for row in recordings:
            try:
                found = sum(len(chunk) for chunk in house.tape.read(row.file, row.quality))
            except TapeDamaged as problem:
                faults += 1
                print(f"fault\t{problem}")
            else:
                if found != row.rows:
                    faults += 1
                    print(
                        f"fault\t{row.path} holds {found:,} rows, {row.rows:,} were recorded: import its data again"
                    )
        print(f"tape\t{len(recordings)} files")
        for root in house.reference.universe.products:
            for owner in {row.owner for row in recordings}:
                for session in house.store.sessions([owner], root):
                    try:
                        load(session.profile)
                    except SnapshotMismatch as problem:
                        faults += 1
                        print(
                            f"fault\t{session.contract} {session.trade_date} {session.kind}: {problem}: outcry refold"
                        )
        faults += _look_at_logs(house)
    print("in order" if not faults else f"{faults} faults")
    return 1 if faults else 0


def _look_at_logs(house: House) -> int:
    """Read every log of a live stream; return how many are at fault."""
    faults = 0
    if house.settings.database_url and not (house.settings.folder / LOG_FOLDER).is_dir():
        print("live\tno log in this folder: a cluster has it on its bus, where it is not looked at")
        return 0
    try:
        with house.log.exclusively():
            keys = house.log.keys()
            for key in keys:
                try:
                    for frame in house.log.read(key, 0):
                        decode(frame)
                except LogDamaged as problem:
                    faults += 1
                    print(f"fault\t{problem}")
            print(f"live\t{len(keys)} streams")
    except LogInUse:
        print("live\tin use by a running service: not looked at")
    return faults


def backup(folder: Path, *, data: str | None = None) -> int:
    """Copy database, tape, live logs, secret and vault key into FOLDER, which must be empty or new; the service may go
    on running.

    To restore, name that folder with OUTCRY_DATA. It holds what its database is opened with: keep it as safe as the
    original. Whoever sets OUTCRY_SECRET and OUTCRY_VAULT_KEYS instead has backups without them.

    Parameters
    ----------
    folder
        Where to.
    data
        The data folder; otherwise OUTCRY_DATA.
    """
    settings = read_settings(data=data)
    if settings.database_url:
        print(
            "outcry: this database is backed up with its own tools; copy the tape folder beside it",
            file=sys.stderr,
        )
        return 2
    if folder.exists() and any(folder.iterdir()):
        print(f"outcry: {folder} is not empty", file=sys.stderr)
        return 2
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with open_house(settings) as house, house.tape.exclusively():
        with (
            closing(sqlite3.connect(str(sqlite_url(settings.folder).database))) as live,
            closing(sqlite3.connect(folder / "outcry.sqlite3")) as copy,
        ):
            live.backup(copy)
        for name in house.store.tape_paths():
            target = folder / "tape" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(settings.folder / "tape" / name, target)
        live = (
            settings.folder / LOG_FOLDER
        )  # after the database: a log may be ahead of its snapshot, not behind
        if live.is_dir():
            shutil.copytree(live, folder / LOG_FOLDER, ignore=shutil.ignore_patterns(".lock"))
        for name in (SECRET_FILE, VAULT_FILE, "outcry.toml", "overrides.csv"):
            if (settings.folder / name).is_file():
                shutil.copy2(settings.folder / name, folder / name)
    print(f"backed up to {folder}")
    return 0
