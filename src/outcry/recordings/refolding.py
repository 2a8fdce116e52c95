"""Compute sessions again from stored recordings, after the session tables or the rules have changed."""

from collections.abc import Container, Iterable, Iterator, Sequence
from datetime import date
from itertools import groupby

from outcry.market.calendar import SessionKind
from outcry.market.instruments import Contract
from outcry.recordings.completeness_check import CompletenessCheck, FoldedSession, minutes_by_recording
from outcry.recordings.contributions import set_aside_by_recording, set_aside_in
from outcry.recordings.import_report import RefoldedContract
from outcry.recordings.recorded_session import RecordedSession
from outcry.recordings.session_selection import LONGEST_SESSION, SessionBuilder, rank, touching
from outcry.recordings.session_splitting import ImportContext
from outcry.recordings.verification import verified
from outcry.sessions.store_model import RecordingId, RecordingRow, SessionRow

#: Identifies a session of one product, for any of its contracts.
SessionDate = tuple[date, SessionKind]


def refold(context: ImportContext, now_ns: int) -> Iterator[RefoldedContract]:
    """Compute all sessions again from the stored recordings, and store them; yield a report on each finished contract.

    The caller must have locked the tape. Raises `StoreBusy`.
    """
    store, contract = context.store, context.universe.contract
    ordered = sorted(
        store.all_recordings(),
        key=lambda r: (r.owner, contract(r.contract).root, r.contract, r.source, r.quality.rank),
    )
    all_named = not store.has_damaged_recordings()
    for (owner, _), of_product in groupby(ordered, key=lambda r: (r.owner, contract(r.contract).root)):
        rows = list(of_product)
        for key, sessions, faults in fold_product(context, owner, rows, now_ns, all_named=all_named):
            store.replace_sessions(owner, key, sessions)
            yield RefoldedContract(key, len(sessions), faults)


def fold_product(
    context: ImportContext, owner: int, of_product: Sequence[RecordingRow], now_ns: int, *, all_named: bool = True,
) -> Iterator[tuple[str, list[SessionRow], list[str]]]:  # fmt: skip
    """Compute the sessions of all contracts of one product again, in order of time.

    The contracts are computed together, because a session is compared with earlier sessions of any contract.
    of_product: the product's recordings, by contract, source and quality. all_named: whether the store still has the
    row of every recording. Yields each contract with its sessions, and a message for each damaged recording.
    """
    checked = {row.id: verified(row, context.tape) for row in of_product}
    unreadable = frozenset(id_ for id_, (_, fault) in checked.items() if fault)
    folded = fold_recordings(context, owner, of_product, now_ns, unreadable)
    for row in of_product:
        digest, fault = checked[row.id]
        if not row.digest and not fault:
            context.store.add_digest(row, digest)
    rows = select(folded, CompletenessCheck(context, owner, now_ns, stored=False))
    for key, of_contract in groupby(of_product, key=lambda r: r.contract):
        recordings = list(of_contract)
        damaged = [row for row in recordings if checked[row.id][1]]
        selected = [row for row in rows if row.contract == key]
        if damaged or not all_named:
            selected += _unfoldable(
                context, owner, key, [one.row for one in folded], damaged, all_named=all_named
            )
        yield key, _best_of(selected), [checked[row.id][1] for row in damaged]


def fold_recordings(
    context: ImportContext, owner: int, of_product: Iterable[RecordingRow], now_ns: int,
    damaged: frozenset[RecordingId] = frozenset(), *, forgotten: frozenset[str] = frozenset(),
    wanted: Container[SessionDate] | None = None,
) -> list[FoldedSession]:  # fmt: skip
    """Compute the sessions of one product's recordings from the tape, once for each contract, source and quality.

    of_product: recordings of one owner, by contract, source and quality. damaged: those to leave out, together with
    their sessions. forgotten: digests of imports of which the recordings no longer have rows. wanted: the sessions to
    compute; None for all. For each of them `of_product` must have all recordings that overlap it.
    """
    folded: list[FoldedSession] = []
    for (key, source, _), group in groupby(of_product, key=lambda r: (r.contract, r.source, r.quality)):
        recordings = sorted(group, key=lambda r: r.trade_date)
        unreadable = [row for row in recordings if row.id in damaged]
        readable = [row for row in recordings if row.id not in damaged]
        builder = SessionBuilder(context, owner, source, now_ns)
        contract = context.universe.contract(key)
        folded += _fold_contract(builder, context, contract, readable, unreadable, forgotten, wanted)
    return folded


def _fold_contract(
    builder: SessionBuilder, context: ImportContext, contract: Contract, recordings: Sequence[RecordingRow],
    damaged: Sequence[RecordingRow], forgotten: frozenset[str], wanted: Container[SessionDate] | None,
) -> list[FoldedSession]:  # fmt: skip
    """Compute the sessions of one contract's recordings from the tape, except those with a damaged recording.

    All recordings are of one owner, source and quality, in order of trade date.
    """
    if not recordings:
        return []
    first, last = recordings[0], recordings[-1]
    tick_e9 = context.universe.products[contract.root].tick_e9
    folds: dict[int, RecordedSession] = {}
    for cell, rows in builder.session_rows(contract, first.quality, [row.file for row in recordings]):
        if wanted is not None and (cell.session.trade_date, cell.session.kind) not in wanted:
            continue
        if cell.session.open_ns not in folds:
            folds[cell.session.open_ns] = RecordedSession(contract, cell.session, first.quality)
        folds[cell.session.open_ns].add(rows, tick_e9)
    stored = context.store.sessions_of(
        first.owner, contract.key, first.trade_date, last.trade_date + LONGEST_SESSION
    )
    set_aside = {
        (row.trade_date, row.kind): (row.off_tick, row.out_of_order)
        for row in stored
        if (row.source, row.quality) == (first.source, first.quality)
    }
    by_recording = set_aside_by_recording(context.store, recordings, forgotten)
    for fold in folds.values():  # rows that were not written to the tape exist only during the import
        known = [by_recording[row.id] for row in touching(recordings, fold.session)]
        fold.counts.off_tick, fold.counts.out_of_order = (
            set_aside.get((fold.session.trade_date, fold.session.kind), (0, 0))
            if None in known
            else set_aside_in(fold.session.open_ns, [one for one in known if one is not None])
        )
    found = (
        builder.as_folded(fold, touching(recordings, fold.session))
        for fold in folds.values()
        if not touching(damaged, fold.session)
    )
    return [folded for folded in found if folded is not None]


def _unfoldable(
    context: ImportContext, owner: int, key: str, folded: Sequence[SessionRow], damaged: Sequence[RecordingRow],
    *, all_named: bool,
) -> list[SessionRow]:  # fmt: skip
    """Return the stored sessions of a contract that cannot be computed again, because their recording is damaged."""
    known = {(row.contract, row.trade_date, row.kind, row.source, row.quality) for row in folded}
    return [
        row
        for row in context.store.sessions_of(owner, key, date.min, date.max)
        if (key, row.trade_date, row.kind, row.source, row.quality) not in known
        and (not all_named or any(_touches(one, row) for one in damaged))
    ]


def select(folded: Sequence[FoldedSession], judge: CompletenessCheck) -> list[SessionRow]:
    """Determine in order of time which sessions of a product are complete; return the best row for each session."""
    recorded = minutes_by_recording(folded)
    rows: list[SessionRow] = []
    ordered = sorted(folded, key=lambda one: (one.row.open_ns, one.row.contract))
    for _, same in groupby(ordered, key=lambda one: (one.row.open_ns, one.row.contract)):
        best = max((judge.judge(one, recorded[one.recording]) for one in same), key=rank)
        judge.note(best)
        rows.append(best)
    return rows


def _best_of(rows: Iterable[SessionRow]) -> list[SessionRow]:
    """Return the best row for each session of one contract.

    A session may have rows of several sources and qualities.
    """
    best: dict[tuple[int, str], SessionRow] = {}
    for row in rows:
        key = (row.open_ns, row.kind)
        if key not in best or rank(row) > rank(best[key]):
            best[key] = row
    return list(best.values())


def _touches(recording: RecordingRow, row: SessionRow) -> bool:
    """Return whether a recording overlaps a stored session of the same source and quality."""
    same = (recording.source, recording.quality) == (row.source, row.quality)
    return same and recording.first_ns < row.close_ns and recording.last_ns >= row.open_ns
