"""Compute sessions again from stored recordings, after the session tables or the rules have changed."""

from collections.abc import Iterator, Sequence
from datetime import date
from itertools import groupby

from outcry.recordings.import_report import RefoldedContract
from outcry.recordings.session_selection import (
    CompletenessCheck,
    FoldedSession,
    ImportContext,
    SessionBuilder,
    best_of,
    select_sessions,
    touches,
)
from outcry.recordings.verification import verified
from outcry.sessions.store_model import RecordingRow, SessionRow


def refold(context: ImportContext, now_ns: int) -> Iterator[RefoldedContract]:
    """Compute every session again from the tape and store the results; yield each contract when it is done.

    The caller must have locked the tape. Raises `StoreBusy`.
    """
    store, contract = context.store, context.universe.contract
    ordered = sorted(
        store.all_recordings(),
        key=lambda r: (r.owner, contract(r.contract).root, r.contract, r.source, r.quality.rank),
    )
    all_named = not store.has_damaged_recordings()
    for (owner, _), of_product in groupby(ordered, key=lambda r: (r.owner, contract(r.contract).root)):
        yield from _refold_product(context, owner, list(of_product), now_ns, all_named=all_named)


def _refold_product(
    context: ImportContext, owner: int, of_product: Sequence[RecordingRow], now_ns: int, *, all_named: bool
) -> Iterator[RefoldedContract]:
    """Compute the sessions of all contracts of one product again, in order of time.

    They are computed together, because a session is checked against earlier ones of any contract. all_named: the store
    has lost no row of a recording.
    """
    checked = {row.id: verified(row, context.tape) for row in of_product}
    folded: list[FoldedSession] = []
    for (key, source, _), group in groupby(of_product, key=lambda r: (r.contract, r.source, r.quality)):
        recordings = sorted(group, key=lambda r: r.trade_date)
        damaged = [row for row in recordings if checked[row.id][1]]
        readable = [row for row in recordings if not checked[row.id][1]]
        builder = SessionBuilder(context, owner, source, now_ns)
        folded += builder.refold(context.universe.contract(key), readable, damaged)
    for row in of_product:
        digest, fault = checked[row.id]
        if not row.digest and not fault:
            context.store.add_digest(row, digest)
    rows = select_sessions(folded, CompletenessCheck(context, owner, now_ns, stored=False))
    for key, of_contract in groupby(of_product, key=lambda r: r.contract):
        recordings = list(of_contract)
        damaged = [row for row in recordings if checked[row.id][1]]
        selected = [row for row in rows if row.contract == key]
        if damaged or not all_named:
            selected += _unfoldable(
                context, owner, key, [one.row for one in folded], damaged, all_named=all_named
            )
        best = best_of(selected)
        context.store.replace_sessions(owner, key, best)
        yield RefoldedContract(key, len(best), [checked[row.id][1] for row in damaged])


def _unfoldable(
    context: ImportContext, owner: int, key: str, folded: Sequence[SessionRow], damaged: Sequence[RecordingRow],
    *, all_named: bool,
) -> list[SessionRow]:  # fmt: skip
    """Return the stored sessions of a contract that cannot be computed again, because a recording is damaged."""
    known = {(row.contract, row.trade_date, row.kind, row.source, row.quality) for row in folded}
    return [
        row
        for row in context.store.sessions_of(owner, key, date.min, date.max)
        if (key, row.trade_date, row.kind, row.source, row.quality) not in known
        and (not all_named or any(touches(one, row) for one in damaged))
    ]
