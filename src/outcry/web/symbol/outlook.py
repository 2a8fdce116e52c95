"""All data of a symbol page at one point in time, read from the functions behind the API.

The page shows what the API returns to the same user; no profile is computed here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from outcry.access.licences import Scope
from outcry.answers.query import Query
from outcry.answers.selection import utc_date
from outcry.answers.value_relation import ValueRelation, tpos_around, value_relation
from outcry.market.instruments import Product, Universe
from outcry.market.playbook import ScenarioState
from outcry.sessions.opening_hours import Hours, OpeningHours
from outcry.web.number_format import instant_ns
from outcry.wire.answers import ContextAnswer, LevelsAnswer, SessionLevels
from outcry.wire.chart import ChartAnswer
from outcry.wire.profile import ProfileAnswer

#: Attempts to read all answers from the same feed; a feed that connects or disconnects takes a second one.
_MOST_ASKED = 10


@dataclass(frozen=True, slots=True)
class Outlook:
    """The current data of a symbol's page.

    `scenarios`: None if the session is not live. `profile`: profile of the session that the page describes, which is
    the open one if live. `at_ns`: time of the feed's newest event, or now. `named`: whether a contract was requested.
    `last_data_at`: time of the last data of an idle feed.
    """

    product: Product
    levels: LevelsAnswer
    context: ContextAnswer
    scenarios: Sequence[ScenarioState] | None
    last_data_at: str | None
    profile: ProfileAnswer
    chart: ChartAnswer
    hours: Hours
    at_ns: int
    named: bool

    @property
    def symbol(self) -> str:
        """The page's symbol: the ticker, or the contract if one was requested."""
        return self.context.contract if self.named else self.product.root

    @property
    def session(self) -> SessionLevels:
        """The session that the page describes: the open one if live, else the newest completed one."""
        return self.context.session

    @property
    def live(self) -> bool:
        """Whether the session that the page describes is open."""
        return self.levels.live

    @property
    def regular(self) -> bool:
        """Whether the session that the page describes is a regular session."""
        return self.session.session == "rth"

    @property
    def prior(self) -> SessionLevels | None:
        """The last completed regular session before the one that the page describes."""
        return next(
            (
                drawn.levels
                for drawn in reversed(self.chart.sessions)
                if drawn.levels is not None and drawn.levels.final and drawn.date < self.session.date
            ),
            None,
        )

    @property
    def reference(self) -> float:
        """The price from which distances are measured: the last price, or the close of a completed session."""
        last = self.levels.last_price
        return self.session.close_price if last is None else last

    @property
    def change(self) -> float | None:
        """The last price minus the prior close."""
        return self.reference - self.prior.close_price if self.prior else None

    @property
    def change_percent(self) -> float | None:
        """The last price's difference from the prior close, in percent; None if that close is not above 0."""
        prior, change = self.prior, self.change
        return (
            100 * change / prior.close_price
            if prior and change is not None and prior.close_price > 0
            else None
        )

    @property
    def range(self) -> float:
        """The session's range, high minus low."""
        return self.session.high - self.session.low

    @property
    def range_share(self) -> float | None:
        """The session's range as a multiple of the average daily range."""
        average = self.chart.average_range
        return self.range / average if average else None

    def touched_today(self, price: float) -> bool:
        """Return whether the open regular session has traded at or around a price, so that a POC there is not naked."""
        return self.live and self.regular and self.session.low <= price <= self.session.high

    @property
    def tpos(self) -> tuple[int, int]:
        """The number of TPOs above and below the POC."""
        return tpos_around(self.session.poc, self.profile.rows)

    @property
    def value_relation(self) -> ValueRelation | None:
        """Position of the value area relative to that of the prior session."""
        prior, now = self.prior, self.session
        return value_relation(now.vah, now.val, prior.vah, prior.val) if prior else None


@dataclass(frozen=True, slots=True)
class Gatherer:
    """Reads the data of a symbol's page. Calls may block."""

    query: Query
    universe: Universe
    hours: OpeningHours

    def outlook(self, scope: Scope, symbol: str, sessions: int, now_ns: int) -> Outlook:
        """Read all data of a symbol's page. Raises `UnknownSymbol`, `NoLicensedSource`."""
        context, levels, scenarios = self._of_one_feed(scope, symbol, now_ns)
        at_ns = instant_ns(levels.updated_at) if levels.updated_at else now_ns
        return Outlook(
            product=self.universe.products[context.symbol],
            levels=levels,
            context=context,
            scenarios=scenarios,
            last_data_at=None if context.live else self.query.last_data_at(scope, context.symbol),
            profile=self.query.profile(scope, symbol, None, now_ns).answer,
            chart=self.query.chart(scope, symbol, max(sessions, 2), now_ns).answer,
            hours=self.hours.at(context.symbol, at_ns),
            at_ns=at_ns,
            named=self.universe.resolve(symbol, utc_date(now_ns)).contract is not None,
        )

    def _of_one_feed(
        self, scope: Scope, symbol: str, now_ns: int
    ) -> tuple[ContextAnswer, LevelsAnswer, Sequence[ScenarioState] | None]:
        """Read levels, context and scenarios, all from the same feed.

        If another feed took over between the reads, read again.
        """
        for _ in range(_MOST_ASKED):
            context = self.query.context(scope, symbol, now_ns).answer
            levels = self.query.levels(scope, symbol, now_ns).answer
            scenarios = self.query.scenarios(scope, symbol, now_ns)
            same = levels.live == context.live and levels.data_source == context.data_source
            if same and levels.live == (scenarios is not None):
                return context, levels, scenarios
        raise RuntimeError(
            f"answers about {symbol} kept coming from different feeds in {_MOST_ASKED} attempts"
        )

    def age(self, root: str, made_on: str, today: str) -> int:
        """Return the age of a level in regular sessions."""
        return self.hours.sessions_since(root, date.fromisoformat(made_on), date.fromisoformat(today))
