"""Products without delivery months: one contract that never expires or rolls, and names with any characters."""

from datetime import date
from pathlib import Path

import pytest
from tests.own_products import PRODUCTS, own_reference

from outcry.feeds.databento.symbols import symbol_of
from outcry.feeds.ibkr.contracts import contract_query
from outcry.feeds.massive.symbols import ticker_of
from outcry.feeds.projectx.symbols import contract_id, find_listed
from outcry.feeds.tastytrade.symbols import streamed_symbol
from outcry.feeds.tradovate.symbols import vendor_symbol
from outcry.live.model import StreamKey
from outcry.live.partitions import partition_of, partition_of_stream
from outcry.market.instruments import Contract, UnknownName
from outcry.market.reference import parse_products
from outcry.market.reference_rows import BadReference
from outcry.market.roll import RollRule, front_on, fronts
from outcry.recordings.formats.contract_names import CONTINUOUS, ContractNames
from outcry.trades.contract_lifetime import lifetime_ns
from outcry.trades.feed import FeedRefused
from outcry.web.formatter import month_text

UNIVERSE = own_reference().universe
SPY, PERP = Contract("SPY"), Contract("BTC-PERP")
TODAY = date(2026, 11, 20)


def test_the_key_of_an_undated_contract_is_the_root() -> None:
    assert (PERP.key, PERP.short_key, PERP.is_dated) == ("BTC-PERP", "BTC-PERP", False)
    assert UNIVERSE.contract("BTC-PERP") == PERP
    for unknown in ("SPYZ2026", "BTC", "", "NK225"):
        with pytest.raises(UnknownName):
            UNIVERSE.contract(unknown)
    assert UNIVERSE.contract("NK225Z2026") == Contract("NK225", 2026, 12)


def test_an_undated_contract_never_expires_or_rolls() -> None:
    assert UNIVERSE.front("SPY", TODAY) == UNIVERSE.next_contract(SPY) == SPY
    assert UNIVERSE.expiry(SPY) == UNIVERSE.roll_deadline(SPY) == date.max
    assert UNIVERSE.contracts("SPY", date.min, date.max) == ()
    volumes = {date(2026, 11, day): {SPY: 100 + day} for day in (16, 17, 18)}
    rule = RollRule.of(UNIVERSE, "SPY")
    assert [(front.contract, front.rolled_from) for front in fronts(volumes, rule)] == [(SPY, None)] * 3
    on = front_on(volumes, date(2199, 1, 2), [SPY], rule)
    assert on is not None
    assert on.contract == SPY


def test_its_trades_may_have_any_time_a_recording_can_have() -> None:
    """1980-01-01 is 3,652 days after 1970 and 2199-12-31 is 84,005 days after it; the window's end is not included."""
    day_ns = 86_400 * 10**9
    assert lifetime_ns(UNIVERSE, SPY) == (3652 * day_ns, 84_005 * day_ns)


@pytest.mark.parametrize("symbol", ["SPY", "spy", " SPY ", "/SPY"])
def test_a_symbol_means_the_product(symbol: str) -> None:
    found = UNIVERSE.resolve(symbol, TODAY)
    assert (found.product.root, found.contract) == ("SPY", None)


@pytest.mark.parametrize("symbol", ["BTC-PERP", "btc-perp", "BTC/USDT", "btc/usdt", "BTCUSDT"])
def test_tickers_and_aliases_may_have_any_characters(symbol: str) -> None:
    assert UNIVERSE.resolve(symbol, TODAY).product.root == "BTC-PERP"
    assert ContractNames(UNIVERSE).contract(symbol, TODAY) == PERP


def test_a_month_of_a_product_without_months_is_unknown() -> None:
    with pytest.raises(UnknownName) as unknown:
        UNIVERSE.resolve("SPYZ6", TODAY)
    assert unknown.value.suggestions == ("SPY",)


def test_long_tickers_have_months() -> None:
    """The June contract ends on 2026-06-19, the third Friday, so in November a `6` after M is that of 2036."""
    assert UNIVERSE.resolve("NK225M6", TODAY).contract == Contract("NK225", 2036, 6)
    assert UNIVERSE.resolve("NK225Z26", TODAY).contract == Contract("NK225", 2026, 12)
    assert ContractNames(UNIVERSE).contract("NK225", TODAY) == CONTINUOUS


@pytest.mark.parametrize(
    ("name", "contract"),
    [
        ("SPY.csv", SPY), ("spy_2026-11-20.csv.gz", SPY), ("trades_SPY_2026.parquet", SPY), ("BTC-PERP.csv", PERP),
        ("BTC-PERP_trades.csv", PERP), ("BTCUSDT-trades-2026-11-20.csv", PERP),
        ("NK225_Z26_1min.txt", Contract("NK225", 2026, 12)), ("NK225.csv", None), ("notes.csv", None),
    ],
)  # fmt: skip
def test_a_file_name_can_name_the_contract(name: str, contract: Contract | None) -> None:
    assert ContractNames(UNIVERSE).in_file_name(Path(name), TODAY) == contract


def test_a_stream_of_it_has_a_name_and_a_partition() -> None:
    key = StreamKey(7, "mine", PERP)
    assert key.text == "7/mine/BTC-PERP"
    assert StreamKey.read(key.text, UNIVERSE) == key
    assert partition_of_stream(key.text) == partition_of("7/mine/BTC-PERP")
    assert partition_of_stream("7/mine/ESZ2026") == partition_of("7/mine/ES")


def test_no_broker_of_futures_has_it() -> None:
    assert ticker_of(UNIVERSE, SPY, TODAY) is None
    assert vendor_symbol(UNIVERSE, SPY, TODAY) is None
    assert streamed_symbol(SPY, "CME") is None
    assert contract_id(UNIVERSE, SPY) is None
    assert find_listed(UNIVERSE, SPY, ()) is None
    with pytest.raises(FeedRefused):
        symbol_of(UNIVERSE, SPY, TODAY)
    with pytest.raises(FeedRefused):
        contract_query(SPY, UNIVERSE)


def test_pages_show_no_month() -> None:
    assert [month_text(key, "en") for key in ("SPY", "BTC-PERP", "NK225Z2026")] == ["", "", "Dec 2026"]


ROWS = PRODUCTS.splitlines()


@pytest.mark.parametrize(
    ("row", "before", "after", "column", "problem"),
    [
        (1, "SPY,", "S/Y,", "root", "capital letters"),
        (1, "SPY,", "spy,", "root", "capital letters"),
        (1, "SPY,", "SPYSPYSPYSPYS,", "root", "at most 12"),
        (1, "SPY,", "COM1,", "root", "capital letters"),
        (1, "SPY,", "NK225Z6,", "root", "'NK225Z6' is a contract of NK225"),
        (1, ",,,,,,test", ",,,,,ESX NK225H27,test", "aliases", "'NK225H27' is a contract of NK225"),
        (1, ",,,,,,test", ",third_friday,,,,,test", "expiry_rule", "never expires"),
        (1, ",,,,,,test", ",,,2,,,test", "roll_sessions", "never expires"),
        (2, "index,,", "index,NK225,", "parent", "only one of them has months"),
        (2, "0.001", "0", "size_step", "not above zero"),
        (2, "0.001", "0.0000000001", "size_step", "nine decimals"),
        (3, "NK225,", "NK-225,", "root", "a month is added"),
        (3, "NK225,", "NIKKEI225,", "root", "at most 6"),
        (3, "third_friday", "", "expiry_rule", "empty"),
    ],
)
def test_a_wrong_row_is_refused(row: int, before: str, after: str, column: str, problem: str) -> None:
    assert before in ROWS[row]
    lines = [*ROWS[:row], ROWS[row].replace(before, after, 1), *ROWS[row + 1 :]]
    with pytest.raises(BadReference, match=problem) as refusal:
        parse_products("\n".join(lines))
    assert (refusal.value.row, refusal.value.column) == (row + 1, column)


def test_size_steps_are_exact_and_one_by_default() -> None:
    products = UNIVERSE.products
    assert [products[root].size_step_e9 for root in ("SPY", "BTC-PERP", "NK225")] == [10**9, 10**6, 10**9]
