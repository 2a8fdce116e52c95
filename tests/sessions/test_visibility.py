"""What a scope sees is derived once, and again when sessions, scope or time change."""

import pytest
from tests.installations import Write
from tests.sessions.test_lookback import put

from outcry.access.licences import Grant, Scope
from outcry.app.installation import Installation
from outcry.market.units import NANOS_PER_DAY
from outcry.sessions.completed_sessions import CompletedSessions
from outcry.sessions.visible_sessions import VisibleSessions

ALL = Grant("everyone", "completed", (), None, None, 0)
DELAYED = Grant("everyone", "completed", (), None, None, NANOS_PER_DAY)
ANN, BOB, NOBODY = Scope(1, (ALL,)), Scope(2, (ALL,)), Scope(3, ())


class View:
    """Sessions of ES that scopes see."""

    def __init__(self, installation: Installation) -> None:
        self._product = installation.reference.universe.products["ES"]
        self._completed = CompletedSessions(
            installation.store, installation.reference.universe, installation.reference.calendar
        )
        self._clock = installation.clock

    def of(self, scope: Scope, at_ns: int | None = None) -> VisibleSessions:
        return self._completed.visible(scope, self._product, at_ns or self._clock.now_ns())[0]

    def days(self, scope: Scope, at_ns: int | None = None) -> list[str]:
        return [str(session.trade_date) for session in self.of(scope, at_ns).in_context(None)]

    def until_ns(self, scope: Scope, at_ns: int) -> int:
        return self._completed.visible(scope, self._product, at_ns)[1]


@pytest.fixture
def view(installation: Installation, ticks: Write) -> View:
    put(installation, ticks, "20240701", 5500)
    return View(installation)


def test_scopes_with_the_same_sessions_share_derived_data(view: View) -> None:
    assert view.days(ANN) == ["2024-07-01"]
    assert view.of(ANN) is view.of(ANN) is view.of(BOB)
    assert view.of(ANN).newest is view.of(BOB).newest


def test_a_scope_without_a_grant_sees_no_sessions(view: View) -> None:
    assert view.days(ANN) == ["2024-07-01"]
    assert view.days(NOBODY) == []
    assert view.days(ANN) == ["2024-07-01"]


def test_a_new_session_is_visible_and_leaves_views_in_use_unchanged(
    view: View, installation: Installation, ticks: Write
) -> None:
    before = view.of(ANN)
    put(installation, ticks, "20240702", 5510)
    assert view.days(ANN) == view.days(BOB) == ["2024-07-01", "2024-07-02"]
    assert [str(session.trade_date) for session in before.in_context(None)] == ["2024-07-01"]


def test_an_unrelated_change_of_the_database_leaves_the_sessions_decoded(
    view: View, installation: Installation
) -> None:
    before = view.of(ANN)
    revision = installation.store.revision()
    installation.keys.create("ann@example.com", "pro", installation.clock.now_ns())
    assert installation.store.revision() > revision
    assert view.of(ANN) is before


def test_an_embargo_ends_on_time_and_still_applies_to_earlier_times(view: View) -> None:
    """ES closed at 16:15 in New York on 1 July 2024, 20:15 UTC; a day later everyone may see it."""
    scope = Scope(1, (DELAYED,))
    ends_ns = 1_719_951_300 * 10**9
    assert view.days(scope, ends_ns - 1) == []
    assert view.until_ns(scope, ends_ns - 1) == ends_ns
    assert view.days(scope, ends_ns) == ["2024-07-01"]
    assert view.days(scope, ends_ns - 1) == [], "a clock that was set back"


def test_a_view_ends_with_the_utc_day(view: View) -> None:
    noon_ns = 1_719_921_600 * 10**9  # 2 July 2024, 12:00
    assert view.until_ns(ANN, noon_ns) == noon_ns + NANOS_PER_DAY // 2
    assert view.until_ns(ANN, noon_ns + NANOS_PER_DAY) == noon_ns + 3 * NANOS_PER_DAY // 2
