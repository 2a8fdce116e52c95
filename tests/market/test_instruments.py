"""Symbols, expiries and rolls compared with published dates and with dates worked by hand from rules §9."""

from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outcry.market.instruments import Contract, Universe, UnknownName
from outcry.trades.reference_tables import load_reference

UNIVERSE = load_reference().universe
TODAY = date(2026, 11, 21)


def contract(key: str) -> Contract:
    found = UNIVERSE.resolve(key, TODAY).contract
    assert found is not None
    return found


# Last trading days as published by the exchange.
EXPIRIES = {
    "ESZ2013": "2013-12-20",  # third Friday
    "ESH2024": "2024-03-15",
    "NQM2024": "2024-06-21",
    "ESM2026": "2026-06-18",  # the third Friday is Juneteenth
    "RTYZ2026": "2026-12-18",
    "YMU2025": "2025-09-19",
    "CLX2013": "2013-10-22",  # three business days before 25 October, a Friday
    "CLK2020": "2020-04-21",  # 25 April 2020 is a Saturday: four
    "CLF2014": "2013-12-19",  # 25 December: four, and the 24th counts
    "CLZ2023": "2023-11-20",  # 25 November 2023 is a Saturday: 24, 22, 21, 20 (the 23rd is Thanksgiving)
    "NGF2024": "2023-12-27",  # three before 1 January: 29, 28, 27
    "NGZ2025": "2025-11-25",  # 28, 26, 25: the 27th is Thanksgiving
    "RBF2024": "2023-12-29",
    "HOK2024": "2024-04-30",
    "GCZ2013": "2013-12-27",  # third last: 31, 30, 27
    "GCV2013": "2013-10-29",
    "SIH2024": "2024-03-26",  # 28, 27, 26: the 29th is Good Friday
    "HGN2024": "2024-07-29",
    "PLJ2024": "2024-04-26",
    "ZNH2024": "2024-03-19",  # seven before 28 March
    "ZBM2024": "2024-06-18",  # last 28 June; 27, 26, 25, 24, 21, 20, 18: the 19th is Juneteenth
    "ZFH2024": "2024-03-28",
    "ZTZ2023": "2023-12-29",
    "ZCZ2013": "2013-12-13",  # before the 15th, a Sunday
    "ZSF2024": "2024-01-12",  # before Monday the 15th
    "ZLZ2024": "2024-12-13",
    "LEG2024": "2024-02-29",
    "HEG2024": "2024-02-14",  # tenth business day
    "GFF2024": "2024-01-25",  # last Thursday
    "GFX2023": "2023-11-16",  # the Thursday before Thanksgiving
    "6EH2024": "2024-03-18",  # two before Wednesday the 20th
    "6EM2024": "2024-06-17",
    "6CH2024": "2024-03-19",  # one before
    "6JZ2013": "2013-12-16",
    "BTCF2024": "2024-01-26",
    "ETHZ2026": "2026-12-24",  # the last Friday is Christmas Day
}


@pytest.mark.parametrize(("key", "end"), EXPIRIES.items())
def test_last_trading_day(key: str, end: str) -> None:
    assert UNIVERSE.expiry(contract(key)).isoformat() == end


@pytest.mark.parametrize(
    ("micro", "end"),
    [
        (Contract("MES", 2024, 3), "2024-03-15"),
        (Contract("MCL", 2020, 5), "2020-04-20"),  # the day before CL's
        (Contract("MNG", 2024, 1), "2023-12-26"),
        (Contract("M6E", 2024, 3), "2024-03-18"),
        (Contract("MBT", 2024, 1), "2024-01-26"),
    ],
)
def test_last_trading_day_of_micros(micro: Contract, end: str) -> None:
    assert UNIVERSE.expiry(micro).isoformat() == end


@pytest.mark.parametrize(
    ("key", "notice", "deadline"),
    [
        (
            "ZNH2024",
            "2024-02-29",
            "2024-02-27",
        ),  # last business day of the month before; roll two days before that
        ("GCZ2013", "2013-11-29", "2013-11-26"),  # 28 November is Thanksgiving
        ("ZCZ2013", "2013-11-29", "2013-11-26"),
        ("LEG2024", "2024-02-05", "2024-02-01"),  # first Monday
        ("ESZ2013", None, "2013-12-18"),
        ("CLX2013", None, "2013-10-18"),  # notices follow the last trading day
        ("6EH2024", None, "2024-03-14"),
    ],
)
def test_first_notice_and_roll_deadline(key: str, notice: str | None, deadline: str) -> None:
    first = UNIVERSE.first_notice(contract(key))
    assert (first and first.isoformat()) == notice
    assert UNIVERSE.roll_deadline(contract(key)).isoformat() == deadline


@pytest.mark.parametrize(
    ("key", "following"),
    [
        ("ESZ2013", "ESH2014"), ("CLZ2013", "CLF2014"), ("GCQ2024", "GCZ2024"), ("GCV2024", "GCZ2024"),
        ("GCX2013", "GCZ2013"), ("HGH2024", "HGK2024"), ("ZSX2024", "ZSF2025"), ("HEK2024", "HEM2024"),
        ("6EF2024", "6EH2024"), ("PLV2024", "PLF2025"),
    ],
)  # fmt: skip
def test_the_roll_follows_the_cycle(key: str, following: str) -> None:
    """Gold's October is skipped (rules §9); serial months roll into the cycle."""
    assert UNIVERSE.next_contract(contract(key)).key == following


def test_contracts_listed_by_last_trading_day() -> None:
    """CL ends in the month before delivery; ES in the delivery month; both dates are included."""
    assert [c.key for c in UNIVERSE.contracts("CL", date(2013, 10, 22), date(2013, 12, 19))] == [
        "CLX2013", "CLZ2013", "CLF2014",
    ]  # fmt: skip
    assert [c.key for c in UNIVERSE.contracts("ES", date(2013, 12, 21), date(2014, 6, 20))] == [
        "ESH2014",
        "ESM2014",
    ]
    assert [c.key for c in UNIVERSE.contracts("GC", date(2024, 8, 1), date(2024, 12, 31))] == [
        "GCQ2024",
        "GCZ2024",
    ]
    assert UNIVERSE.contracts("ES", date(2014, 1, 1), date(2014, 1, 31)) == ()


@pytest.mark.parametrize(
    ("root", "day", "key"),
    [
        ("ES", "2013-10-07", "ESZ2013"),
        ("ES", "2013-12-17", "ESZ2013"),
        ("ES", "2013-12-18", "ESH2014"),
        ("CL", "2013-10-17", "CLX2013"),
        ("CL", "2013-10-18", "CLZ2013"),
        ("GC", "2013-11-25", "GCZ2013"),
        ("GC", "2013-11-26", "GCG2014"),
    ],
)
def test_front_by_calendar(root: str, day: str, key: str) -> None:
    assert UNIVERSE.front(root, date.fromisoformat(day)).key == key


# Every vendor's symbol formats of one contract or its ticker.
SPELLINGS = {
    "ES": None, "es": None, "  ES\n": None, "/ES": None, "@ES": None, "MES": None, "/MES": None,
    "ES.FUT": None,
    "ES.v.0": None, "ES.c.0": None, "ES.n.1": None, "ES1!": None, "CME_MINI:ES1!": None, "ES=F": None,
    "ES ##-##": None, "F.US.EP": None, "CON.F.US.MES": None,
    "ESZ6": "ESZ2026", "esz6": "ESZ2026", "ESZ26": "ESZ2026", "ESZ2026": "ESZ2026", "MESZ6": "ESZ2026",
    "MESZ2026": "ESZ2026", "/ESZ6": "ESZ2026", "/ESZ26:XCME": "ESZ2026", "@ESZ26": "ESZ2026",
    "ESZ2026.XCME": "ESZ2026", "CON.F.US.EP.Z26": "ESZ2026", "con.f.us.mes.z26": "ESZ2026",
    "ESZ26_FUT_CME": "ESZ2026",
    "ESZ26-CME": "ESZ2026", "ES 12-26": "ESZ2026", "ES 12-2026": "ESZ2026", "ES_202612": "ESZ2026",
    "ES 202612": "ESZ2026", "ES202612": "ESZ2026", "CME_MINI:ESZ2026": "ESZ2026", "ES_201312": "ESZ2013",
    "ESZ13": "ESZ2013", "ESH7": "ESH2027",
}  # fmt: skip


@pytest.mark.parametrize(("symbol", "key"), SPELLINGS.items())
def test_symbol_formats_of_es(symbol: str, key: str | None) -> None:
    found = UNIVERSE.resolve(symbol, TODAY)
    assert found.product.root == "ES"
    assert (found.contract and found.contract.key) == key


@pytest.mark.parametrize(
    ("symbol", "root", "key"),
    [
        ("6EH4", "6E", "6EH2034"), ("M6EZ6", "6E", "6EZ2026"), ("/6JZ6", "6J", "6JZ2026"),
        ("M2KZ6", "RTY", "RTYZ2026"),
        ("CON.F.US.ENQ.H27", "NQ", "NQH2027"), ("CON.F.US.CLE.F27", "CL", "CLF2027"),
        ("CON.F.US.TYA.Z26", "ZN", "ZNZ2026"), ("CON.F.US.EU6.Z26", "6E", "6EZ2026"),
        ("CON.F.US.GMET.Z26", "ETH", "ETHZ2026"), ("CON.F.US.MGC.G27", "GC", "GCG2027"),
        ("GC 02-27", "GC", "GCG2027"),
        ("GCX3", "GC", "GCX2033"), ("ZNH27_FUT_CBOT", "ZN", "ZNH2027"), ("CBOT:ZC1!", "ZC", None),
        ("TY", "ZN", None),
        ("@EC", "6E", None), ("SIL", "SI", None), ("SILH7", "SI", "SIH2027"), ("SIH7", "SI", "SIH2027"),
        ("HEG7", "HE", "HEG2027"), ("MHGH7", "HG", "HGH2027"), ("BTCX6", "BTC", "BTCX2026"),
        ("ETH", "ETH", None),
        ("MBTF27", "BTC", "BTCF2027"), ("/CLF27:XNYM", "CL", "CLF2027"),
    ],
)  # fmt: skip
def test_symbol_formats_of_other_products(symbol: str, root: str, key: str | None) -> None:
    found = UNIVERSE.resolve(symbol, TODAY)
    assert found.product.root == root
    assert (found.contract and found.contract.key) == key


@pytest.mark.parametrize(
    ("symbol", "near", "history", "key"),
    [
        ("ESZ6", "2026-12-18", False, "ESZ2026"),  # its last day: not yet expired
        ("ESZ6", "2026-12-19", False, "ESZ2036"),
        ("CLF7", "2026-12-21", False, "CLF2027"),  # four before Christmas Day: 24, 23, 22, 21
        ("CLF7", "2026-12-22", False, "CLF2037"),
        ("6EH4", "2024-01-05", True, "6EH2024"),
        ("ESH1", "2021-02-01", True, "ESH2021"),
        ("ESH1", "2021-09-01", True, "ESH2021"),
        ("ESH1", "2021-09-01", False, "ESH2031"),
        ("ESU4", "2024-07-01", True, "ESU2024"),
        ("ESZ3", "2013-10-08", True, "ESZ2013"),
        ("ESZ9", "2010-01-15", True, "ESZ2009"),
        ("ESZ9", "2030-01-15", True, "ESZ2029"),
        ("ESZ99", "2026-11-21", False, "ESZ1999"),
        ("ESZ76", "2026-11-21", False, "ESZ2076"),
    ],
)
def test_the_century_and_decade_of_short_years(symbol: str, near: str, history: bool, key: str) -> None:
    found = UNIVERSE.resolve(symbol, date.fromisoformat(near), history=history).contract
    assert found is not None
    assert found.key == key


@pytest.mark.parametrize(
    "symbol",
    [
        "", " ", "/", "@", "ESX6", "ESZ", "ESZ123", "ESZ9999", "ESZ0000", "ES 13-26", "EZ", "XXZ6", "6EY4",
        "CON.F.US.XX.Z26",
        "CON.F.EU.EP.Z26", "CON.F.US.EP.", "EP", "ES.FUT.FUT", "ES..0", "ES!", "ESZ6;DROP", "ＥＳ", "ΕS",
        "ES\x00",
        "E S", "ESZ६", "MESX6", "MHGV", "LEF7", "é" * 10_000, "ES" * 10_000, "ſ", "ß" * 50, "[[[[", "(" * 39,
        "\\",
    ],
)  # fmt: skip
def test_other_texts_are_unknown_symbols(symbol: str) -> None:
    with pytest.raises(UnknownName) as refusal:
        UNIVERSE.resolve(symbol, TODAY)
    assert len(refusal.value.suggestions) <= 5
    assert refusal.value.symbol == symbol
    assert len(str(refusal.value)) < 300


@pytest.mark.parametrize(
    ("symbol", "expected"),
    [("ESX6", "ESZ6"), ("EZ", "ES"), ("gold", "GC"), ("bitcoin", "BTC"), ("ESS", "ES"), ("MNW", "MNQ"),
    ("NQX7", "NQ"),
     ("XEZ6", "6E"), ("crude", "CL"), ("nasdaq", "NQ")],
)  # fmt: skip
def test_suggestions_for_mistyped_symbols(symbol: str, expected: str) -> None:
    with pytest.raises(UnknownName) as refusal:
        UNIVERSE.resolve(symbol, TODAY)
    assert expected in refusal.value.suggestions


@given(
    st.one_of(st.text(), st.text("ESZ6MNQ./@:!_- 0123456789CONFUV", max_size=20)), st.dates(), st.booleans()
)
@settings(max_examples=1000, deadline=None)
def test_any_text_resolves_or_is_unknown(symbol: str, near: date, history: bool) -> None:
    """Any text near any date yields a product of the table in a listed month, or an unknown symbol."""
    try:
        found = UNIVERSE.resolve(symbol, near, history=history)
    except UnknownName:
        pass
    else:
        assert found.product.parent is None
        assert found.contract is None or found.product.lists(found.contract.month)


@given(st.sampled_from(sorted(UNIVERSE.products)), st.integers(2012, 2027), st.integers(1, 12))
@settings(deadline=None)
def test_a_contract_is_found_by_its_own_keys(root: str, year: int, month: int) -> None:
    """Both keys resolve to the contract, the short one while the contract trades."""
    product = UNIVERSE.parent_of(root)
    made = Contract(product.root, year, month)
    if product.lists(month):
        assert UNIVERSE.resolve(made.key, TODAY).contract == made
        end = UNIVERSE.expiry(made)
        for history in (False, True):
            assert UNIVERSE.resolve(made.short_key, end, history=history).contract == made
        assert UNIVERSE.roll_deadline(made) < end


def test_contracts_are_ordered_by_time_within_a_product() -> None:
    assert sorted([Contract("ES", 2014, 3), Contract("ES", 2013, 12)])[0] == Contract("ES", 2013, 12)
    assert (Contract("ES", 2013, 12).key, Contract("ES", 2013, 12).short_key) == ("ESZ2013", "ESZ3")


def test_without_a_calendar_every_weekday_is_a_business_day() -> None:
    plain = Universe(UNIVERSE.products)
    assert plain.expiry(Contract("ES", 2026, 6)) == date(2026, 6, 19)
