"""`outcry serve --demo`: a simulated market that is open at any hour of any day.

Simulated and real data never share a folder, and every API answer states that its data is simulated. Each start deletes
the previous simulated data and revokes the demo's previous key; keys that users created stay. Webhooks can be sent to
the demo's own receiver. Alerts from before the start of the demo are not delivered.
"""

import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from outcry.access.model import GrantRow
from outcry.app.installation import Installation, open_installation
from outcry.app.settings import BadSettings, Settings
from outcry.base.clock import SystemClock
from outcry.cli.set_up import set_up_notice
from outcry.cli.whereabouts import address, demo_folder
from outcry.trades.feed import Feed

if TYPE_CHECKING:
    from outcry.app.people import People
    from outcry.delivery.sink_server import Receiver

SOURCE = "simulator"
EMAIL = "demo@localhost.localdomain"
SESSIONS = 20
ROLLS_WITHIN = timedelta(days=10)
SEED = 1848  # any number works; this is the year the Chicago Board of Trade was founded


class Serving(NamedTuple):
    """The installation to serve, its feeds, and a function that prints a message once the server listens.

    The function takes the host, the port and the users.

    """

    installation: Installation
    feeds: Sequence[tuple[int, Feed]]
    greet: Callable[[str, int, "People"], None]


def demo_settings(settings: Settings, *, chosen: bool) -> Settings:
    """Return settings with the demo's own data folder, unless the user chose one."""
    if chosen:
        return settings
    return msgspec.structs.replace(settings, data=str(demo_folder(settings.folder)))


@contextmanager
def open_demo(settings: Settings, tables_folder: Path | None = None) -> Generator[Serving]:
    """Open the folder, simulate past sessions and create a key. Raises `BadSettings` for a folder with real data.

    tables_folder: data folder with the operator's own instruments, if it is another one.
    """
    from outcry.delivery.sink_server import receiver  # noqa: PLC0415 - needed by the demo only
    from outcry.feeds.simulator.clock import DemoClock  # noqa: PLC0415
    from outcry.feeds.simulator.feed import SimulatorFeed  # noqa: PLC0415
    from outcry.feeds.simulator.history import past_sessions  # noqa: PLC0415
    from outcry.feeds.simulator.market import SimulatedMarket  # noqa: PLC0415
    from outcry.sessions.demo_history import write_history  # noqa: PLC0415
    from outcry.trades.reference_tables import Reference  # noqa: PLC0415

    def begin_clock(reference: Reference) -> DemoClock:
        market = SimulatedMarket(SEED, reference.universe.products, reference.calendar)
        # Own instruments may have hours and holidays at which the demo should not stop.
        return DemoClock(SystemClock(), reference.calendar, market.packaged_roots)

    with (
        receiver(settings.folder, SystemClock()) as sink,
        open_installation(
            _admitting(settings, sink), market_clock=begin_clock, sink=sink.sink, tables_folder=tables_folder
        ) as installation,
        installation.log.exclusively(),
    ):
        _refuse_real_data(installation)
        _clear(installation)
        universe, calendar, clock = (
            installation.reference.universe,
            installation.reference.calendar,
            installation.market_clock,
        )
        assert isinstance(clock, DemoClock)
        market = SimulatedMarket(SEED, universe.products, calendar)
        days = (
            clock.trade_date,
            clock.trade_date + ROLLS_WITHIN,
        )  # the next contract needs past sessions too, for after a roll
        fronts = sorted({universe.front(root, day) for root in market.roots for day in days})
        print(
            f"Simulating {SESSIONS} sessions of {len(market.roots)} products …", file=sys.stderr, flush=True
        )
        write_history(
            installation.store, universe.products, fronts,
            lambda contract: past_sessions(market, contract, calendar, clock.trade_date, SESSIONS),
            source=SOURCE, now_ns=clock.now_ns(),
        )  # fmt: skip
        _grant_to_everyone(installation)
        key = _only_key(installation)
        feed = SimulatorFeed(market, universe, calendar, clock)
        yield Serving(installation, [(0, feed)], partial(_greet, key, installation))


def _admitting(settings: Settings, sink: "Receiver") -> Settings:
    """Return settings that allow webhooks to the demo's own receiver and trust its certificate."""
    hosts = ",".join(filter(None, (settings.private_hosts, sink.host)))
    if settings.private_ca:  # keep the operator's own root certificates
        with sink.authority.open("ab") as file:
            file.write(b"\n" + Path(settings.private_ca).read_bytes())
    return msgspec.structs.replace(settings, private_hosts=hosts, private_ca=str(sink.authority))


def _refuse_real_data(installation: Installation) -> None:
    real = {row.source for row in installation.store.all_recordings()} - {SOURCE}
    for root in installation.store.roots([0]):
        real |= {row.source for row in installation.store.sessions([0], root)} - {SOURCE}
    if real:
        raise BadSettings(
            f"{installation.settings.folder} contains real data ({', '.join(sorted(real))}). "
            "The demo needs its own folder: choose another with --data."
        )


def _clear(installation: Installation) -> None:
    """Delete the simulated data that earlier starts stored."""
    for path in installation.store.forget_source(SOURCE, installation.alerts.forget_feed):
        installation.tape.remove(path)
    for key in installation.log.keys():  # noqa: SIM118 - no mapping
        if key.split("/")[1] == SOURCE:
            installation.log.forget(key)


def _only_key(installation: Installation) -> str:
    """Create the demo's key. Revoke the keys of earlier starts, because terminals and logs show those keys."""
    now_ns = installation.clock.now_ns()
    user_id = installation.store.ensure_user(EMAIL, now_ns)
    for row in installation.keys.of(user_id):
        installation.keys.revoke_own(user_id, row.id, now_ns)
    return installation.keys.create(EMAIL, "pro", now_ns)


def _grant_to_everyone(installation: Installation) -> None:
    """Let every key see the simulated data, live and without an embargo."""
    known = {(grant.grantee, grant.scope, grant.embargo_ns) for grant in installation.store.grants()}
    for scope in ("completed", "live"):
        if ("everyone", scope, 0) not in known:
            row = GrantRow(0, "everyone", scope, (), None, None, 0, None, licence="public")
            installation.store.add_grant(row, installation.clock.now_ns(), by="demonstration")


def _greet(key: str, installation: Installation, host: str, port: int, people: "People") -> None:
    at = address(host, port)
    print(
        set_up_notice(installation.settings.folder, people.first_run, at), end="", file=sys.stderr, flush=True
    )
    print(
        f"Outcry demo at {at} (data folder: {installation.settings.folder})\n"
        "All data is simulated. Not advice.\n"
        f"key: {key}\n"
        f'curl -H "x-api-key: {key}" "{at}/api/levels?symbol=ES"\n'
        f"Test webhooks with the built-in receiver: {at}/sink",
        flush=True,
    )
