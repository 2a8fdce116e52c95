"""Creates the demo's history: simulated sessions, computed and stored as if they had been recorded.

Their source is the name of the simulated feed. So API responses mark them as simulated, and all of them can be removed
by that name. A contract with sessions of another source is skipped. They have no tape files, because the simulator can
produce the same trades again from its seed.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date

from outcry.access.licences import OPERATOR
from outcry.market.calendar import Session
from outcry.market.instruments import Contract, Product
from outcry.market.kernels import BulkFold
from outcry.market.ladder import BRACKET_MINUTES, bracket_windows
from outcry.market.snapshot import dump
from outcry.sessions.store import SqlStore
from outcry.sessions.store_model import SessionRow
from outcry.trades.records import Quality, Rows
from outcry.trades.rows import fold_rows, on_tick, volume_of

#: Returns a contract's completed sessions with all their trades in order of time (dtype `TRADE`).
Past = Callable[[Contract], Iterable[tuple[Session, Rows]]]


@dataclass(frozen=True, slots=True)
class Written:
    """Result of creating the history: the number of sessions stored, and the contracts skipped.

    A contract is skipped if it has sessions of another source.
    """

    sessions: int
    left_alone: tuple[Contract, ...]


def write_history(
    store: SqlStore, products: Mapping[str, Product], contracts: Iterable[Contract], past: Past, *,
    source: str, now_ns: int,
) -> Written:  # fmt: skip
    """Compute the simulated history of contracts and store it as the operator's, in one transaction.

    Raises `StoreBusy`.
    """
    rows: list[SessionRow] = []
    left_alone: list[Contract] = []
    for contract in contracts:
        existing = store.sessions_of(OPERATOR, contract.key, date.min, date.max)
        if any(row.source != source for row in existing):
            left_alone.append(contract)
            continue
        tick_e9 = products[contract.root].tick_e9
        rows += [
            _folded(contract, session, trades, tick_e9, source, now_ns) for session, trades in past(contract)
        ]
    if rows:
        store.commit_import(OPERATOR, f"invented: {source}", source, (), rows, now_ns)
    return Written(len(rows), tuple(left_alone))


def _folded(
    contract: Contract, session: Session, rows: Rows, tick_e9: int, source: str, now_ns: int
) -> SessionRow:
    fold = BulkFold(bracket_windows(session.segments, BRACKET_MINUTES))
    traded, ticks, off_tick = on_tick(rows, tick_e9, Quality.TICKS)
    fold_rows(fold, traded, ticks, Quality.TICKS)
    ladder = fold.ladder()
    if ladder is None:
        raise ValueError(f"{contract.key} did not trade on {session.trade_date}")
    return SessionRow(
        owner=OPERATOR, root=session.root, contract=contract.key, trade_date=session.trade_date, kind=session.kind,
        open_ns=session.open_ns, close_ns=session.close_ns, source=source, quality=Quality.TICKS, complete=True,
        short=session.short, rows=len(traded), volume=volume_of(traded, Quality.TICKS),
        off_tick=off_tick, out_of_order=0,
        first_ns=int(traded["ts_event"][0]), last_ns=int(traded["ts_event"][-1]), received_ns=now_ns,
        profile=dump(ladder), segments=session.segments,
    )  # fmt: skip
