"""Build the web application of a process, whether the process runs alone or in a cluster."""

import atexit
import sys
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import BinaryIO, NamedTuple, cast

from outcry.access.limiter import Limiter
from outcry.api.app import Application, Background, Options, Services, create_app
from outcry.app.calendar_warning import warn_of_ending_holidays
from outcry.app.installation import Installation
from outcry.app.people import People
from outcry.app.secret import derived
from outcry.base.log_writer import LogWriter
from outcry.connections.service import BrokerConnections
from outcry.http.metrics import Metrics
from outcry.trades.push_format import Intake


class Served(NamedTuple):
    """The web application of a process, and its parts that concern users."""

    application: Application
    people: People


def answering(
    installation: Installation, people: People, limiter: Limiter, live: Background, pushes: Intake,
    connections: BrokerConnections | None, degraded: Mapping[str, Callable[[], bool]] = MappingProxyType({}),
) -> Served:  # fmt: skip
    """Build the application for the roles of this process.

    live: the live service. pushes: the receiver of pushed feeds. connections: users' own feeds, for the pages.
    degraded: functions by name of a part; each returns whether that part works only partly while requests are still
    answered.
    """
    settings, roles = installation.settings, installation.settings.roles
    lines = LogWriter(sys.stderr.buffer)
    atexit.register(lines.close)
    services = Services(
        query=installation.query,
        keys=installation.keys,
        licences=installation.licences,
        limiter=limiter,
        clock=installation.market_clock,
        registry=installation.registry,
        universe=installation.reference.universe,
        alerts=installation.alerts,
        pushes=pushes,
        live=live,
        delivery=people.delivery if roles & {"deliver", "web"} else None,
        page_authenticator=people.authenticator if "web" in roles else None,
        pages=partial(people.pages, connections, pushes.usage) if "web" in roles and connections else None,
        checks={"store": lambda: discard(installation.store.revision())},
        degraded={
            **degraded,
            "disk": lambda: installation.disk.stalled,
            "disk_reserve": lambda: installation.disk.short,
        },
        frozen=lambda: installation.disk.stalled and not settings.database_url,
        ticket_secret=derived(installation.secret, "stream tickets"),
    )
    options = Options(
        query_timeout_s=settings.patience_s,
        open_metrics=settings.open_metrics,
        api="api" in roles,
        log=cast("BinaryIO", lines),
        shares_store=bool(settings.cluster),
    )
    application = create_app(services, options)
    _measure_disk(application.edge.metrics, installation)
    warn_of_ending_holidays(application.edge.event_log, installation.reference, installation.clock.now_ns())
    return Served(application, people)


def _measure_disk(metrics: Metrics, installation: Installation) -> None:
    """Register metrics of the disk with the data folder."""
    disk = installation.disk
    metrics.gauge(
        "outcry_disk_free_bytes", "Free space on the disk of the data folder.", lambda: disk.left_bytes
    )
    metrics.gauge(
        "outcry_disk_reserve_bytes",
        "Free space below which market data is rejected; 0: no reserve.",
        lambda: disk.reserve_bytes,
    )


def discard(_value: object) -> None:
    """Ignore a value. Adapts a check that reports a failure only by raising."""
