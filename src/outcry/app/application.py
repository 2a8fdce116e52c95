"""Build the application to serve: everything in one process, or this process's roles in a cluster."""

from collections.abc import Sequence

from outcry.access.local_limiter import SlidingWindowLimiter
from outcry.app.answering import Served, answering
from outcry.app.feeds import connections_of
from outcry.app.installation import Installation
from outcry.app.live import live_engine, quotas
from outcry.app.people import People, people_of
from outcry.feeds.pushed import PushedFeeds
from outcry.live.service import LiveService
from outcry.trades.feed import Feed


def build_application(
    installation: Installation, feeds: Sequence[tuple[int, Feed]] = (), people: People | None = None
) -> Served:
    """Build the application that a process serves.

    feeds: the operator's feeds, with their owners. people: browser sessions, sign-in and delivery of a single process;
    built by this function if None.
    """
    if installation.settings.cluster:
        # Needs the libraries of the extra `cluster`, which a single process does without.
        from outcry.app.cluster import part_of_cluster  # noqa: PLC0415

        return part_of_cluster(installation, feeds)
    people = people or people_of(installation)
    engine = live_engine(installation)
    connections, supervisor = connections_of(installation, engine)
    pushes = PushedFeeds(
        installation.reference.universe,
        reserved={feed.name for _, feed in feeds},
        reserved_of=connections.reserved,
        streams_of=engine.streams_of,
        kept=engine.persisted,
        quotas=quotas(installation, engine),
    )
    live = LiveService(engine, feeds, pushes, supervisor)
    limiter = SlidingWindowLimiter(installation.steady_ns)
    degraded = {"log": lambda: installation.log.stuck}
    return answering(installation, people, limiter, live, pushes, connections, degraded)
