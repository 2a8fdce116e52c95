"""Build the live engine, which computes levels and alerts from feeds, from an installation."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from outcry.access.licences import OPERATOR
from outcry.app.installation import LOG_FOLDER, Installation
from outcry.base.log_events import LogEvent
from outcry.database.disk import bytes_in
from outcry.live.archive import Archive
from outcry.live.engine import Engine, Market, Stores
from outcry.live.model import FanOut, Snapshots
from outcry.live.quotas import Limits, Quotas
from outcry.live.registry import Registry
from outcry.live.service import LiveService
from outcry.live.trade_log import TradeLog
from outcry.market.units import NANOS_PER_SECOND
from outcry.trades.feed import Feed


def live_engine(installation: Installation) -> Engine:
    """Build the live engine of a service that runs in one process. The engine writes its log to files."""
    return engine_over(installation, installation.log, installation.alerts, installation.registry)


def engine_over(
    installation: Installation, log: TradeLog, snapshots: Snapshots, registry: Registry, by: str = ""
) -> Engine:
    """Build the live engine over a log and a registry of live sessions. by: name of this process in a cluster."""
    universe, calendar = installation.reference.universe, installation.reference.calendar
    stores = stores_of(installation, log, snapshots)
    # The demo simulates a morning at its start. Alerts of that morning are not delivered.
    since_ns = installation.market_clock.now_ns() if installation.simulated else 0
    fan_out = partial(_fan_out, installation, since_ns)
    market = Market(universe, calendar, installation.market_clock, installation.licences.of_user, fan_out)
    return Engine(stores, market, registry, by=by)


def stores_of(installation: Installation, log: TradeLog, snapshots: Snapshots) -> Stores:
    """Return the stores of a live engine over a log."""
    archive = Archive(lambda: installation.importer, installation.reference.calendar.session_at)
    return Stores(log, snapshots, installation.alerts, installation.store, archive)


def live_service(installation: Installation, feeds: Sequence[tuple[int, Feed]] = ()) -> LiveService:
    """Build the live engine with the operator's feeds only."""
    return LiveService(live_engine(installation), feeds, None)


def _fan_out(installation: Installation, since_ns: int) -> FanOut:
    """Return the `FanOut`, which decides who receives alerts, under the current grants. Queries the database."""
    now_ns = installation.clock.now_ns()
    installation.licences.refresh(now_ns)
    return FanOut(installation.licences.audience, now_ns, since_ns)


def tails(installation: Installation) -> list[tuple[int, Feed]]:
    """Build a feed for each growing Sierra Chart file in the setting `tail`. Raises `FileRefused`."""
    paths = [Path(path.strip()) for path in installation.settings.tail.split(",") if path.strip()]
    if not paths:
        return []
    from outcry.feeds.scid_tail import tail_of  # noqa: PLC0415 - imports readers of files

    today = datetime.fromtimestamp(installation.clock.now_ns() // NANOS_PER_SECOND, UTC).date()
    universe = installation.reference.universe
    return [(OPERATOR, tail_of(path, universe, installation.clock, today)) for path in paths]


def quotas(installation: Installation, engine: Engine) -> Quotas:
    """Build the storage quotas of users' pushed feeds. Usage is measured in the data folder."""
    settings, folder = installation.settings, installation.settings.folder

    def measure(owner: int) -> int:
        return bytes_in(folder / LOG_FOLDER / str(owner), folder / "tape" / f"user-{owner}")

    def report(event: LogEvent, **details: object) -> object:
        return engine.report(event, **details)

    limits = Limits(settings.push_quota_mib * 2**20, settings.push_streams)
    return Quotas(limits, measure, engine.streams_of, lambda: installation.disk.short, report)
