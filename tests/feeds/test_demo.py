"""Past sessions of the demo: a source of their own, separate from real sessions."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from outcry.database.database import Database, open_engine, sqlite_url
from outcry.database.migrate import migrate
from outcry.feeds.simulator.history import past_sessions
from outcry.feeds.simulator.market import SimulatedMarket
from outcry.market.calendar import SessionKind
from outcry.market.fold import SessionFold
from outcry.market.instruments import Contract
from outcry.market.ladder import bracket_windows
from outcry.market.snapshot import load
from outcry.sessions.demo_history import Past, Written, write_history
from outcry.sessions.store import SqlStore
from outcry.trades.records import Quality
from outcry.trades.reference_tables import Reference, load_reference

UNTIL = date(2026, 11, 20)
ES = Contract("ES", 2026, 12)
HE = Contract("HE", 2026, 12)
NOW = 1_795_200_000_000_000_000


@pytest.fixture(scope="module")
def reference() -> Reference:
    return load_reference()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    engine = open_engine(sqlite_url(tmp_path))
    migrate(engine)
    yield SqlStore(Database(engine))
    engine.dispose()


@pytest.fixture
def past(reference: Reference) -> Past:
    market = SimulatedMarket(1, reference.universe.products, reference.calendar)
    return lambda contract: past_sessions(market, contract, reference.calendar, UNTIL)


def write(store: SqlStore, reference: Reference, past: Past, *contracts: Contract) -> Written:
    return write_history(store, reference.universe.products, contracts, past, source="simulator", now_ns=NOW)


def test_every_session_is_kept_whole(store: SqlStore, reference: Reference, past: Past) -> None:
    """Twenty regular sessions and twenty nights of ES, twenty regular ones of hogs, which have no nights."""
    assert write(store, reference, past, ES, HE) == Written(60, ())
    stored = store.sessions([0], "ES")
    assert len(stored) == 40
    assert len(store.sessions([0], "HE")) == 20
    assert {(row.source, row.quality, row.complete, row.off_tick) for row in stored} == {
        ("simulator", Quality.TICKS, True, 0)
    }
    assert {row.kind for row in stored} == {SessionKind.RTH, SessionKind.ETH}
    assert store.all_recordings() == []
    for row, (session, trades) in zip(stored, past(ES), strict=True):
        assert (row.open_ns, row.close_ns, row.trade_date) == (
            session.open_ns, session.close_ns, session.trade_date
        )  # fmt: skip
        assert (row.rows, row.volume) == (len(trades), int(trades["size"].sum()))
        assert (row.first_ns, row.last_ns) == (trades["ts_event"][0], trades["ts_event"][-1])


def test_the_profile_is_that_of_the_trades(store: SqlStore, reference: Reference, past: Past) -> None:
    write(store, reference, past, HE)
    session, trades = next(iter(past(HE)))
    fold = SessionFold(bracket_windows(session.segments, 30))
    ticks = (trades["price"] // 25_000_000).tolist()  # 0.025 cents
    fold.trades(zip(trades["ts_event"].tolist(), ticks, trades["size"].tolist(), strict=True))
    assert load(store.sessions([0], "HE")[0].profile) == fold.ladder()


def test_it_is_one_change_of_the_store_and_can_be_repeated(
    store: SqlStore, reference: Reference, past: Past
) -> None:
    before = store.revision()
    write(store, reference, past, ES, HE)
    assert store.revision() == before + 1
    stored = store.sessions([0], "ES")
    write(store, reference, past, ES, HE)
    assert store.sessions([0], "ES") == stored


def test_what_was_recorded_is_left_alone(store: SqlStore, reference: Reference, past: Past) -> None:
    write(store, reference, past, HE)
    real = replace(store.sessions([0], "HE")[0], source="lean", contract="ESZ2026", root="ES")
    store.commit_import(0, "digest", "file.zip", [], [real], NOW)
    assert write(store, reference, past, ES, HE) == Written(20, (ES,))
    assert store.sessions([0], "ES") == [real]


def test_it_can_be_forgotten_by_its_name_and_written_again(
    store: SqlStore, reference: Reference, past: Past
) -> None:
    write(store, reference, past, HE)
    assert store.forget_source("simulator", lambda *_: None) == []
    assert store.sessions([0], "HE") == []
    assert write(store, reference, past, HE) == Written(20, ())


def test_the_whole_universe_is_written(store: SqlStore, reference: Reference, past: Past) -> None:
    contracts = [
        reference.universe.front(p.root, UNTIL) for p in reference.universe.products.values() if not p.parent
    ]
    written = write(store, reference, past, *contracts)
    assert written.sessions == 20 * (32 + 29)
