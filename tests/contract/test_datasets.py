"""The store's counts of stored sessions and of grants on them."""

from dataclasses import replace
from datetime import date
from typing import Literal

import pytest
from tests.contract.databases import Place

from outcry.access.licences import OPERATOR, LicenceClass
from outcry.market.calendar import SessionKind
from outcry.sessions.datasets import Datasets, Grantee, GrantRefused, Others, Terms
from outcry.sessions.store import SqlStore
from outcry.sessions.store_model import DatasetRow, SessionRow
from outcry.trades.records import Quality

NOW_NS = 1_767_366_245 * 10**9


@pytest.fixture
def store(place: Place) -> SqlStore:
    return SqlStore(place.open())


def session(
    owner: int, root: str, day: int, *, complete: bool = True, source: str = "file", month: str = "H2026"
) -> SessionRow:
    return SessionRow(
        owner=owner, root=root, contract=f"{root}{month}", trade_date=date(2026, 1, day), kind=SessionKind.RTH,
        open_ns=day, close_ns=day + 1, source=source, quality=Quality.TICKS, complete=complete, short=False,
        rows=1, volume=1, off_tick=0, out_of_order=0, first_ns=day, last_ns=day, received_ns=day, profile=b"",
    )  # fmt: skip


def test_sessions_are_counted_by_owner_contract_source_and_kind(store: SqlStore) -> None:
    rows = [
        session(OPERATOR, "ES", 5), session(OPERATOR, "ES", 6, complete=False), session(OPERATOR, "ES", 9),
        session(OPERATOR, "ES", 12, month="F2027"),
        session(OPERATOR, "NQ", 7, source="other"), session(3, "ES", 8), session(4, "ES", 8), session(4, "GC", 8),
    ]  # fmt: skip
    for owner in (OPERATOR, 3, 4):
        store.commit_import(
            owner, f"digest {owner}", "x", (), [row for row in rows if row.owner == owner], NOW_NS
        )
    datasets = Datasets(store, {"ES", "NQ"})
    own, others = datasets.known()
    assert own == [
        DatasetRow(
            OPERATOR, "ES", "ESH2026", "file", SessionKind.RTH, 3, 2, date(2026, 1, 5), date(2026, 1, 9)
        ),
        DatasetRow(
            OPERATOR, "ES", "ESF2027", "file", SessionKind.RTH, 1, 1, date(2026, 1, 12), date(2026, 1, 12)
        ),
        DatasetRow(
            OPERATOR, "NQ", "NQH2026", "other", SessionKind.RTH, 1, 1, date(2026, 1, 7), date(2026, 1, 7)
        ),
    ]
    assert others == Others(users=2, sessions=3)


def test_a_grant_names_somebody_who_exists(store: SqlStore) -> None:
    datasets = Datasets(store, {"ES"})
    ann = store.ensure_user("ann@example.com", NOW_NS)
    terms = Terms("user", "Ann@Example.com", "completed", ("ES",), None, None, 24)
    assert datasets.grant(terms, NOW_NS, "boss").grantee == f"user:{ann}"
    with pytest.raises(GrantRefused) as refusal:
        datasets.grant(Terms("user", "nobody@example.com", "completed", (), None, None, 24), NOW_NS, "boss")
    assert (refusal.value.code, refusal.value.field) == ("user", "name")
    with pytest.raises(GrantRefused, match="product"):
        datasets.grant(Terms("everyone", "", "completed", ("XX",), None, None, 24), NOW_NS, "boss")
    with pytest.raises(GrantRefused, match="embargo"):
        datasets.grant(Terms("everyone", "", "completed", (), None, None, -1), NOW_NS, "boss")
    assert [row.grantee for row in datasets.grants()].count(f"user:{ann}") == 1
    number = datasets.grants()[-1].id
    assert datasets.withdraw(number, NOW_NS, "boss") is True
    assert datasets.withdraw(number, NOW_NS, "boss") is False


@pytest.mark.parametrize(
    ("licence", "grantee", "name", "allowed"),
    [
        (None, "everyone", "", "embargo_needs_attestation"),
        ("personal", "user", "ann@example.com", "licence"),
        ("internal", "everyone", "", "licence"),
        ("internal", "tier", "pro", "licence"),
        ("internal", "user", "ann@example.com", None),
        ("redistributable", "everyone", "", None),
        ("public", "tier", "free", None),
    ],
)
@pytest.mark.parametrize(("scope", "hours"), [("live", 0), ("completed", 23), ("completed", 0)])
def test_what_is_shown_soon_rests_on_a_licence_that_allows_it(
    store: SqlStore,
    licence: LicenceClass | None,
    grantee: Grantee,
    name: str,
    allowed: str | None,
    scope: Literal["live", "completed"],
    hours: int,
) -> None:
    store.ensure_user("ann@example.com", NOW_NS)
    datasets = Datasets(store, {"ES"})
    terms = Terms(grantee, name, scope, (), None, None, hours, licence)
    if allowed is None:
        assert datasets.grant(terms, NOW_NS, "boss").licence == licence
        assert datasets.events()[0].attested
        return
    with pytest.raises(GrantRefused) as refusal:
        datasets.grant(terms, NOW_NS, "boss")
    assert (refusal.value.code, refusal.value.field) == (allowed, "licence")
    assert datasets.events() == []


def test_what_is_a_day_old_needs_no_declaration(store: SqlStore) -> None:
    datasets = Datasets(store, {"ES"})
    datasets.grant(Terms("everyone", "", "completed", (), None, None, 24), NOW_NS, "boss")
    assert datasets.events()[0].attested == ""


def test_a_key_is_named_by_its_first_characters(store: SqlStore) -> None:
    ann = store.ensure_user("ann@example.com", NOW_NS)
    key = store.add_key(ann, "free", "outcry_abcdefgh", b"1", NOW_NS)
    datasets = Datasets(store, {"ES"})
    terms = Terms("key", "outcry_abcdefgh", "completed", (), None, None, 24)
    assert datasets.grant(terms, NOW_NS, "boss").grantee == f"key:{key}"
    for name in ("outcry_abcdefg", "", "outcry_other123"):
        with pytest.raises(GrantRefused, match="key"):
            datasets.grant(replace(terms, name=name), NOW_NS, "boss")
