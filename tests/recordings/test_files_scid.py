"""Sierra Chart: hand-made records in the published layout."""

import numpy as np
import pytest
from tests.recordings import sample_files as samples
from tests.recordings.sample_files import FIRST_PART, LAST_PART, OPENING, scid, scid_record, scid_ticks

US = OPENING * 1_000_000


def write(tmp_path, data: bytes, name: str = "ESH24_FUT_CME.scid"):
    path = tmp_path / name
    path.write_bytes(data)
    return path


def test_ticks_parts_and_quotes(tmp_path, read) -> None:
    """A tick, a quote without volume, and a trade in two parts; the µs digits only keep records apart."""
    data = scid(
        scid_record(US + 1_003, (0.0, 4755.5, 4755.25, 4755.25), (1, 2, 0, 2)),
        scid_record(US + 2_000, (0.0, 4755.5, 4755.25, 4755.25), (1, 0, 0, 0)),
        scid_record(US + 3_000, (FIRST_PART, 4755.5, 4755.25, 4755.5), (1, 1, 1, 0)),
        scid_record(US + 3_001, (LAST_PART, 4755.5, 4755.25, 4755.75), (1, 4, 1, 3)),
    )
    result = read(write(tmp_path, data))
    start = OPENING * 10**9
    assert (result.source, result.keys, result.qualities) == ("sierra", {"ESH2024"}, {"ticks"})
    assert result.rows()[["ts_event", "price", "size", "side"]].tolist() == [
        (start + 1_000_000, 4755_250000000, 2, b"B"),
        (start + 3_000_000, 4755_500000000, 1, b"A"),
        (start + 3_000_000, 4755_750000000, 4, b"N"),
    ]
    assert result.counts.skipped == {"quotes without a trade": 1}


@pytest.mark.parametrize(("step", "quality"), [(60, "bars_1m"), (1, "bars_1s")])
def test_bars(tmp_path, read, step, quality) -> None:
    prices = (4755.25, 4756.0, 4755.0, 4755.5)
    data = scid(*(scid_record(US + i * step * 1_000_000, prices, (7, 30, 10, 20)) for i in range(4)))
    result = read(write(tmp_path, data))
    assert result.qualities == {quality}
    assert result.rows()[0].tolist() == (
        OPENING * 10**9,
        4755_250000000,
        4756_000000000,
        4755_000000000,
        4755_500000000,
        30,
    )


def test_five_minute_bars_are_refused(tmp_path, refused) -> None:
    data = scid(*(scid_record(US + i * 300_000_000, (1.0, 2.0, 1.0, 1.5), (7, 30, 0, 0)) for i in range(4)))
    assert "5 minutes" in str(refused(write(tmp_path, data)))


@pytest.mark.parametrize(("name", "stored", "expected"), [
    ("ESH24_FUT_CME.scid", [4755.25, 4755.5, 4754.75], [4755_250000000, 4755_500000000, 4754_750000000]),
    ("ESH24_FUT_CME.scid", [475525.0, 475550.0, 475475.0], [4755_250000000, 4755_500000000, 4754_750000000]),
    ("6EH4.CME.scid", [1.09535, 1.0954, 1.09545], [1_095350000, 1_095400000, 1_095450000]),
    ("6JH4.scid", [0.0070495, 0.00705, 0.0070505], [7049500, 7050000, 7050500]),
    ("6JH4.scid", [7049.5, 7050.0, 7050.5], [7049500, 7050000, 7050500]),
    ("ZNH24_FUT_CME.scid", [110.515625, 110.53125, 110.5], [110_515625000, 110_531250000, 110_500000000]),
    ("CLK20_FUT_CME.scid", [-37.63, -37.62, -37.6], [-37_630000000, -37_620000000, -37_600000000]),
    ("ESH24_FUT_CME.scid", [4755.0, 4750.0, 4760.0], [4755_000000000, 4750_000000000, 4760_000000000]),
])  # fmt: skip
def test_prices_find_their_scale(tmp_path, read, name, stored, expected) -> None:
    assert read(write(tmp_path, scid_ticks(stored), name)).rows()["price"].tolist() == expected


def test_a_price_off_the_tick_is_left_there(tmp_path, read) -> None:
    stored = [4755.25, 4755.5] * 1_000 + [4755.3]
    prices = read(write(tmp_path, scid_ticks(stored))).rows()["price"]
    assert prices[-1] == round(float(np.float32(4755.3)) * 1e9)
    assert prices[-1] % 250_000_000


def test_prices_of_another_product_are_refused(tmp_path, refused) -> None:
    assert "contract" in str(
        refused(write(tmp_path, scid_ticks([1.09535, 1.0954, 1.09545, 1.0955]), "YMH4.scid"))
    )


def test_a_partial_last_record_is_counted(tmp_path, read) -> None:
    result = read(write(tmp_path, scid_ticks([4755.25, 4755.5]) + b"\1" * 17))
    assert len(result.rows()) == 2
    assert result.counts.skipped == {"partial last record": 1}


@pytest.mark.parametrize(("data", "problem"), [
    (samples.scid(record_size=44), "44 bytes"),
    (samples.scid(header_size=2**31), "header length"),
    (samples.scid(), "no complete record"),
    (samples.scid()[:30], "inside its header"),
    (scid(scid_record(-(10**17), (0.0, 1.0, 1.0, 1.0), (1, 1, 0, 1))), "time"),
])  # fmt: skip
def test_bad_headers_are_refused(tmp_path, refused, data, problem) -> None:
    assert problem in str(refused(write(tmp_path, data)))


def test_a_file_name_without_a_contract_requires_the_option(tmp_path, read, refused) -> None:
    path = write(tmp_path, scid_ticks([4755.25, 4755.5]), "continuous.scid")
    assert "--contract" in str(refused(path))
    assert read(path, contract="ESH4").keys == {"ESH2024"}
