"""Visibility of answers: owners, grants, embargo, rolls, symbols; with sessions imported from hand-written files."""

from collections.abc import Callable
from datetime import date
from pathlib import Path

import msgspec
import pytest

from outcry.access.licences import EXCHANGE_EMBARGO_NS, Grant, Scope
from outcry.app.installation import Installation
from outcry.base.errors import (
    InvalidParameter,
    MissingSymbol,
    NoLicensedSource,
    NotFound,
    UnknownSymbol,
)
from outcry.recordings.file_model import ReadOptions
from outcry.wire.answers import LevelsAnswer

Write = Callable[..., Path]
GRANTED = Scope(1, (Grant("everyone", "completed", (), None, None),))
NOT_GRANTED = Scope(1, ())
CLOSE_NS = 1_719_951_300_000_000_000  # RTH of 2024-07-02 ends 20:15 UTC
HOUR = 3600 * 10**9


def session(price: int, size: int = 10) -> list[tuple[str, str, int]]:
    """Return a complete RTH session around a price, which is its POC, printed by all fourteen brackets."""
    lines = [("13:00:00", f"{price}", 1)]
    for n in range(14):
        at = f"{13 + (30 + 30 * n) // 60}:{(30 + 30 * n) % 60:02d}"
        lines += [(f"{at}:01", f"{price}", size), (f"{at}:02", f"{price + (n % 5) - 2}", 1)]
    return [*lines, ("20:14:59", f"{price}", 1), ("20:16:00", f"{price}", 1)]


def put(installation: Installation, path: Path, owner: int = 0) -> None:
    installation.importer.run(path, owner, ReadOptions(), installation.clock.now_ns())


def levels(
    installation: Installation, scope: Scope, symbol: str = "ES", now_ns: int | None = None
) -> LevelsAnswer:
    return installation.query.levels(scope, symbol, now_ns or installation.clock.now_ns()).answer


def test_the_answer_has_exactly_the_fields_of_the_interface(installation: Installation, ticks: Write) -> None:
    put(installation, ticks("20240702", *session(5500)))
    body = msgspec.json.decode(msgspec.json.encode(levels(installation, GRANTED)))
    assert list(body) == ["symbol", "dataSource", "live", "asOf", "updatedAt", "lastPrice", "bias", "developing",
                          "prior", "overnight", "nakedPocs", "poorHighs", "poorLows", "playbook"]  # fmt: skip
    # Fourteen TPOs at 5500, six at each of the four rows below and five at each of the four above are 78 in all. The
    # area needs 54.6: 14, +12 below, +12 below, +10 above, +10 above = 58.
    assert body["prior"] == {"poc": 5500.0, "vah": 5501.0, "val": 5499.0}
    assert body["nakedPocs"] == [{"price": 5500.0, "date": "2024-07-02"}]
    assert (body["dataSource"], body["live"], body["asOf"]) == ("delayed", False, "2024-07-02")


def test_nothing_imported_is_409_with_reasons(installation: Installation) -> None:
    with pytest.raises(NoLicensedSource) as caught:
        levels(installation, GRANTED)
    assert caught.value.details["reasons"] == ["no_connection", "no_completed_session"]


def test_operators_data_needs_a_grant(installation: Installation, ticks: Write) -> None:
    put(installation, ticks("20240702", *session(5500)))
    with pytest.raises(NoLicensedSource) as caught:
        levels(installation, NOT_GRANTED)
    assert "not_granted" in caught.value.details["reasons"]


def test_the_embargo_counts_from_the_close_and_ends_to_the_nanosecond(
    installation: Installation, ticks: Write
) -> None:
    put(installation, ticks("20240702", *session(5500)))
    end = CLOSE_NS + EXCHANGE_EMBARGO_NS
    with pytest.raises(NoLicensedSource) as caught:
        levels(installation, GRANTED, now_ns=end - 1)
    assert caught.value.details["reasons"] == ["no_connection", "embargo"]
    assert caught.value.details["embargo_until"] == "2024-07-03T20:15:00.000Z"
    with pytest.raises(NoLicensedSource) as other:
        levels(installation, GRANTED, "ESZ2024", now_ns=end - 1)  # no session of that contract is stored
    assert other.value.details["reasons"] == ["no_connection", "no_completed_session"]
    assert levels(installation, GRANTED, now_ns=end).as_of == "2024-07-02"


def test_an_answer_under_embargo_has_an_expiry(installation: Installation, ticks: Write) -> None:
    put(installation, ticks("20240701", *session(5490)))
    put(installation, ticks("20240702", *session(5500)))
    now_ns = CLOSE_NS + 3 * HOUR  # 2 July 23:15 UTC; midnight comes before the embargo's end
    found = installation.query.levels(GRANTED, "ES", now_ns)
    assert found.answer.as_of == "2024-07-01"  # its embargo ended at 20:15 UTC
    assert found.fresh_until_ns == 1_719_964_800_000_000_000  # 2024-07-03T00:00Z
    later = installation.query.levels(GRANTED, "ES", CLOSE_NS + 23 * HOUR)
    assert later.fresh_until_ns == CLOSE_NS + EXCHANGE_EMBARGO_NS


def test_a_users_recordings_need_no_grant_and_are_visible_to_that_user_only(
    installation: Installation, ticks: Write
) -> None:
    put(installation, ticks("20240702", *session(5500)), owner=7)
    assert levels(installation, Scope(7, ()), now_ns=CLOSE_NS + HOUR).as_of == "2024-07-02"
    for other in (Scope(8, ()), GRANTED):
        with pytest.raises(NoLicensedSource):
            levels(installation, other)


def test_the_users_recording_takes_precedence_over_the_operators(
    installation: Installation, ticks: Write
) -> None:
    put(installation, ticks("20240702", *session(5500)))
    put(installation, ticks("20240702", *session(5600), folder="mine"), owner=7)
    mine = Scope(7, GRANTED.grants)
    assert levels(installation, mine).prior.poc == 5600
    assert levels(installation, GRANTED).prior.poc == 5500


def test_a_grant_of_other_products_or_dates_shows_nothing(installation: Installation, ticks: Write) -> None:
    put(installation, ticks("20240702", *session(5500)))
    for grant in (
        Grant("everyone", "completed", ("NQ",), None, None),
        Grant("everyone", "completed", (), date(2024, 7, 3), None),
        Grant("everyone", "completed", (), None, date(2024, 7, 1)),
        Grant("everyone", "live", (), None, None),
    ):
        with pytest.raises(NoLicensedSource):
            levels(installation, Scope(1, (grant,)))


@pytest.mark.parametrize(
    "symbol",
    ["ES", "es", "ESU4", "ESU24", "ESU2024", "MES", "mesu4", "/ES", "@ES", "CON.F.US.EP.U24", "ES.v.0"],
)
def test_every_symbol_format_answers_with_the_parents_ticker(
    installation: Installation, ticks: Write, symbol: str
) -> None:
    put(installation, ticks("20240702", *session(5500)))
    found = levels(installation, GRANTED, symbol)
    assert (found.symbol, found.as_of) == ("ES", "2024-07-02")


@pytest.mark.parametrize("symbol", ["ZZZ", "ESU1999", "ESF24", "ES U", "ESU22", "\x00", "💥", "E" * 300])
def test_unknown_and_expired_names_are_404_with_suggestions(
    installation: Installation, ticks: Write, symbol: str
) -> None:
    put(installation, ticks("20240702", *session(5500)))
    with pytest.raises(UnknownSymbol) as caught:
        levels(installation, GRANTED, symbol)
    assert isinstance(caught.value.details["suggestions"], list)


@pytest.mark.parametrize("symbol", [None, "", "   "])
def test_no_symbol_is_400(installation: Installation, symbol: str | None) -> None:
    with pytest.raises(MissingSymbol):
        installation.query.levels(GRANTED, symbol, installation.clock.now_ns())


def test_the_front_rolls_by_volume_and_levels_do_not_mix(installation: Installation, ticks: Write) -> None:
    put(installation, ticks("20240702", *session(5500, 10)))
    put(installation, ticks("20240702", *session(5600, 50), month="202412", folder="z"))
    # the contract most traded on the first day is the front: the later one
    assert levels(installation, GRANTED).prior.poc == 5600
    assert levels(installation, GRANTED, "ESU4").prior.poc == 5500
    assert [level.price for level in levels(installation, GRANTED, "ESU4").naked_pocs] == [5500]


def test_after_a_roll_the_old_contracts_levels_are_absent(installation: Installation, ticks: Write) -> None:
    for day, old, new in (("20240701", 50, 10), ("20240702", 10, 50), ("20240703", 5, 90)):
        put(installation, ticks(day, *session(5500, old), folder=f"u{day}"))
        put(installation, ticks(day, *session(5600, new), month="202412", folder=f"z{day}"))
    context = installation.query.context(GRANTED, "ES", installation.clock.now_ns()).answer
    # 3 July 2024 is an early close: RTH to 13:15 New York; its session is short but is one
    assert (context.contract, context.rolled_from) == ("ESZ2024", "ESU2024")
    history = installation.query.history(GRANTED, "ES", None, None, installation.clock.now_ns()).answer
    assert [(s.date, s.contract) for s in history.sessions] == [
        ("2024-07-01", "ESU2024"), ("2024-07-02", "ESU2024"), ("2024-07-03", "ESZ2024")]  # fmt: skip
    assert {level.price for level in context.naked_pocs} == {5600.0}


def test_profile_of_a_date_without_a_session(installation: Installation, ticks: Write) -> None:
    put(installation, ticks("20240702", *session(5500)))
    with pytest.raises(NotFound):
        installation.query.profile(GRANTED, "ES", "2024-07-04", installation.clock.now_ns())


def test_history_between_dates(installation: Installation, ticks: Write) -> None:
    put(installation, ticks("20240701", *session(5490)))
    put(installation, ticks("20240702", *session(5500)))
    now_ns = installation.clock.now_ns()
    found = installation.query.history(GRANTED, "ES", "2024-07-02", "2024-12-31", now_ns).answer
    assert ([s.date for s in found.sessions], found.from_, found.to) == (
        ["2024-07-02"],
        "2024-07-02",
        "2024-12-31",
    )
    assert installation.query.history(GRANTED, "ES", "2020-01-01", "2020-02-01", now_ns).answer.count == 0
    assert installation.query.history(GRANTED, "ES", "2024-07-02", "2024-07-01", now_ns).answer.count == 0
    with pytest.raises(InvalidParameter):
        installation.query.history(GRANTED, "ES", "yesterday", None, now_ns)


def test_symbols_lists_all_products_and_their_visible_data(installation: Installation, ticks: Write) -> None:
    put(installation, ticks("20240702", *session(5500)))
    found = installation.query.symbols(GRANTED, installation.clock.now_ns()).answer
    by_symbol = {state.symbol: state for state in found.symbols}
    assert found.count == len(found.symbols) == len(by_symbol) >= 30
    es, nq = by_symbol["ES"], by_symbol["NQ"]
    assert (es.contract, es.as_of, es.data_source, es.live) == ("ESU2024", "2024-07-02", "delayed", False)
    assert (es.tick_size, es.tick_value, es.micro, es.rth) == (0.25, 12.5, ["MES"], "09:30–16:15")
    assert (nq.contract, nq.as_of, nq.data_source) == (None, None, None)


def test_a_change_of_the_store_is_visible_at_once(installation: Installation, ticks: Write) -> None:
    put(installation, ticks("20240701", *session(5490)))
    assert levels(installation, GRANTED).as_of == "2024-07-01"
    put(installation, ticks("20240702", *session(5500)))
    assert levels(installation, GRANTED).as_of == "2024-07-02"
