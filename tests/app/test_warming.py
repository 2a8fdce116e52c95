"""First answers are computed at the start, newest first, within the time limit of the start."""

import io
import json
from datetime import date
from pathlib import Path

import pytest

from outcry.access.licences import OPERATOR, VISITOR, Grant, Scope
from outcry.answers.warming import MAX_PRODUCTS, Warmed, warm
from outcry.app.installation import Installation, open_installation
from outcry.app.settings import read_settings
from outcry.cli import warming as console
from outcry.database.errors import StoreBusy
from outcry.feeds.simulator.history import past_sessions
from outcry.feeds.simulator.market import SimulatedMarket
from outcry.http.logs import JsonEventLog
from outcry.market.calendar import SessionKind
from outcry.market.ladder import Ladder
from outcry.sessions import session_history
from outcry.sessions.demo_history import write_history
from outcry.sessions.store_model import DatasetRow

TODAY = date(2026, 3, 4)
VISITORS = Scope(VISITOR, (Grant("everyone", "completed", (), None, None, 0),))


class Rows:
    """In-memory store with fixed rows."""

    def __init__(self, *datasets: DatasetRow) -> None:
        self._datasets = datasets

    def datasets(self) -> tuple[DatasetRow, ...]:
        return self._datasets


class RecordedQuery:
    """Query that records what it prepared."""

    def __init__(self) -> None:
        self.pairs: list[tuple[int, str]] = []

    def warm(self, owner: int, root: str, now_ns: int) -> None:
        self.pairs.append((owner, root))


def dataset(owner: int, root: str, last: date) -> DatasetRow:
    return DatasetRow(owner, root, f"{root}H6", "test", SessionKind.RTH, 5, 5, date(2020, 1, 2), last)


STORE = Rows(
    dataset(7, "CL", date(2026, 3, 4)),
    dataset(OPERATOR, "GC", date(2013, 10, 8)),
    dataset(OPERATOR, "ES", date(2025, 3, 3)),
    dataset(OPERATOR, "ES", date(2026, 3, 3)),  # another contract of the same product
    dataset(OPERATOR, "NQ", date(2026, 3, 2)),
)


def test_the_newest_come_first_and_the_operators_before_those_of_users() -> None:
    query, progress = RecordedQuery(), list[tuple[int, int]]()
    done = warm(query, STORE, 0, lambda: True, lambda *at: progress.append(at))  # type: ignore[arg-type]
    assert query.pairs == [(OPERATOR, "ES"), (OPERATOR, "NQ"), (OPERATOR, "GC"), (7, "CL")]
    assert done == Warmed(4, 4)
    assert progress == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]


def test_it_ends_when_the_time_is_over() -> None:
    query, left = RecordedQuery(), [True, True, False]
    done = warm(query, STORE, 0, lambda: left.pop(0), lambda *_: None)  # type: ignore[arg-type]
    assert query.pairs == [(OPERATOR, "ES"), (OPERATOR, "NQ")]
    assert done == Warmed(2, 4)


def test_no_more_are_prepared_than_stay_in_memory() -> None:
    store, query = (
        Rows(*(dataset(number + 1, "ES", TODAY) for number in range(2 * MAX_PRODUCTS))),
        RecordedQuery(),
    )
    assert warm(query, store, 0, lambda: True, lambda *_: None) == Warmed(MAX_PRODUCTS, 2 * MAX_PRODUCTS)  # type: ignore[arg-type]
    assert len(query.pairs) == MAX_PRODUCTS


@pytest.fixture
def installation(tmp_path: Path) -> "Installation":  # type: ignore[misc]
    with open_installation(read_settings({}, data=str(tmp_path))) as opened:
        universe, calendar = opened.reference.universe, opened.reference.calendar
        market = SimulatedMarket(1848, universe.products, calendar)
        write_history(
            opened.store, universe.products, [universe.front(root, TODAY) for root in ("ES", "NQ")],
            lambda contract: past_sessions(market, contract, calendar, TODAY, 3),
            source="simulator", now_ns=opened.clock.now_ns(),
        )  # fmt: skip
        yield opened


def test_nothing_is_decoded_for_a_first_page_or_answer_after_it(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A visitor and a user with own recordings share the decoded sessions of the operator."""
    decoded: list[bytes] = []

    def counted(packed: bytes) -> Ladder:
        decoded.append(packed)
        return load(packed)

    load = session_history.load
    monkeypatch.setattr(session_history, "load", counted)
    log = io.BytesIO()
    console.warm_up(installation, JsonEventLog(log, installation.clock))
    assert decoded
    assert "Prepared answers for 2 of 2 products in " in capsys.readouterr().err
    line = json.loads(log.getvalue())
    assert (line["event"], line["products"], line["of"]) == ("answers_prepared", 2, 2)
    decoded.clear()
    now_ns = installation.clock.now_ns()
    installation.query.scan(VISITORS, now_ns)
    assert installation.query.levels(VISITORS, "ES", now_ns).answer.prior.poc
    somebody = Scope(7, VISITORS.grants)
    assert installation.query.levels(somebody, "NQ", now_ns).answer.prior.poc
    assert decoded == []


def test_a_store_that_does_not_answer_is_left_to_the_service(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def busy() -> None:
        raise StoreBusy("locked")

    monkeypatch.setattr(installation.store, "datasets", busy)
    log = io.BytesIO()
    console.warm_up(installation, JsonEventLog(log, installation.clock))
    line = json.loads(log.getvalue())
    assert (line["event"], line["reason"]) == ("answers_not_prepared", "locked")
    assert capsys.readouterr().err == ""
