"""The service loads stored sessions when they are first requested, once for all users."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from outcry.access.licences import VISITOR, Grant, Scope
from outcry.app.application import build_application
from outcry.app.installation import Installation, open_installation
from outcry.app.settings import read_settings
from outcry.feeds.simulator.history import past_sessions
from outcry.feeds.simulator.market import SimulatedMarket
from outcry.market.ladder import Ladder
from outcry.sessions import session_history
from outcry.sessions.demo_history import write_history

TODAY = date(2026, 3, 4)
GRANTS = (Grant("everyone", "completed", (), None, None, 0),)
VISITORS, SOMEBODY = Scope(VISITOR, GRANTS), Scope(7, GRANTS)


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    with open_installation(read_settings({}, data=str(tmp_path))) as opened:
        universe, calendar = opened.reference.universe, opened.reference.calendar
        market = SimulatedMarket(1848, universe.products, calendar)
        write_history(
            opened.store, universe.products, [universe.front(root, TODAY) for root in ("ES", "NQ")],
            lambda contract: past_sessions(market, contract, calendar, TODAY, 3),
            source="simulator", now_ns=opened.clock.now_ns(),
        )  # fmt: skip
        yield opened


def test_sessions_are_decoded_for_the_first_answer_and_shared_by_all_users(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three sessions of ES and of NQ each: an answer about ES decodes none of NQ, and nothing is decoded twice."""
    decoded: list[bytes] = []

    def counted(packed: bytes) -> Ladder:
        decoded.append(packed)
        return load(packed)

    load = session_history.load
    monkeypatch.setattr(session_history, "load", counted)
    build_application(installation)
    query, now_ns = installation.query, installation.clock.now_ns()
    assert decoded == []
    assert query.levels(VISITORS, "ES", now_ns).answer.prior.poc
    of_es = len(decoded)
    assert of_es >= 3
    query.scan(VISITORS, now_ns)
    assert len(decoded) == 2 * of_es
    assert query.levels(SOMEBODY, "NQ", now_ns).answer.prior.poc
    assert len(decoded) == len(set(decoded)) == 2 * of_es
