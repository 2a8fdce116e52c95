"""Adapter of ProjectX: the fields of its connection form and the capabilities of its feed.

Importing this module does not load the vendor's library.
"""

from collections.abc import Mapping

from outcry.connections.broker_adapter import AdapterContext, InvalidCredential
from outcry.connections.model import Broker, BrokerField
from outcry.feeds.projectx.firms import FIRMS, Firm
from outcry.market.units import NANOS_PER_DAY, NANOS_PER_MS
from outcry.trades.feed import Backfill, Feed, FeedCaps, Resume

CAPS = FeedCaps(
    resolution_ns=NANOS_PER_MS,
    has_id=False,
    has_side=True,
    backfill=Backfill.BARS_1S,
    reach_ns=5 * NANOS_PER_DAY,
    resume=Resume.BY_TIME,
    has_volume_counter=True,
)


class ProjectXAdapter:
    """Creates ProjectX feeds. Implements `BrokerAdapter`.

    The feeds run only in the agent on the user's machine (`hosted` is false), because TopstepX forbids connections from
    a server.
    """

    library = "pysignalr"
    caps = CAPS

    def __init__(self) -> None:
        self.broker = Broker(
            id="projectx",
            name="ProjectX (TopstepX and others)",
            fields=(
                BrokerField(
                    "firm",
                    "Firm",
                    options=tuple(FIRMS),
                    usual="topstepx",
                    hint="The firm that provides your account.",
                ),
                BrokerField("user", "User name", hint="The user name you sign in to the platform with."),
                BrokerField(
                    "key",
                    "API key",
                    secret=True,
                    hint="Create it in the platform's settings under API. The firm sells API access separately.",
                ),
            ),
            hosted=False,
            extra="projectx",
        )

    def feed(self, given: Mapping[str, str], context: AdapterContext) -> Feed:
        """Create a feed without connecting yet.

        `context.endpoints` may replace the vendor's servers: `api` and `hub`, both `http://host:port`. Raises
        `InvalidCredential`.
        """
        firm = FIRMS.get(given.get("firm", "") or "topstepx")
        if firm is None:
            raise InvalidCredential("rejected", "firm")
        user, key = given.get("user", "").strip(), given.get("key", "").strip()
        for name, entry in (("user", user), ("key", key)):
            if not entry:
                raise InvalidCredential("missing", name)
            if not entry.isprintable():
                raise InvalidCredential("rejected", name)
        from outcry.feeds.projectx.feed import ProjectXFeed  # noqa: PLC0415 - the library may not be there

        firm = Firm(context.endpoints.get("api", firm.api), context.endpoints.get("hub", firm.hub))
        return ProjectXFeed(user, key, firm, context, self.broker.id, self.caps)


ADAPTER = ProjectXAdapter()
