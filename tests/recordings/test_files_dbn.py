"""DBN: every version yields the same rows, mbo counts once, and other records are skipped and counted by reason."""

from datetime import date
from pathlib import Path
from types import SimpleNamespace

import databento as db
import databento_dbn as dbn
import numpy as np
import pytest
import zstandard

from outcry.trades.records import TRADE

TRADES = np.dtype(dbn.TradeMsg._dtypes)
MBO = np.dtype(dbn.MBOMsg._dtypes)
FORMS = ("dbn", "dbz", "v1.dbn.zst", "v2.dbn.zst", "v3.dbn.zst")


def metadata(schema: str | None, symbols: list[str], mappings: dict[str, list[tuple[str, str, str]]] | None = None,
             version: int = 3, stype_in: str = "raw_symbol", *, ts_out: bool = False) -> bytes:  # fmt: skip
    """Encode a header. Mappings: symbol → (first day, day after the last, instrument id)."""
    mappings = [
        SimpleNamespace(
            raw_symbol=symbol,
            intervals=[
                SimpleNamespace(
                    start_date=date.fromisoformat(a), end_date=date.fromisoformat(b), symbol=number
                )
                for a, b, number in spans
            ],
        )
        for symbol, spans in (mappings or {}).items()
    ]
    return dbn.Metadata(
        dataset="GLBX.MDP3", start=1704153600_000000000, stype_out=dbn.SType.INSTRUMENT_ID, symbols=symbols,
        partial=[], not_found=[], mappings=mappings, schema=dbn.Schema(schema) if schema else None,
        stype_in=dbn.SType(stype_in), end=None, limit=None, ts_out=ts_out, version=version,
    ).encode()  # fmt: skip


def records(count: int, layout: np.dtype, rtype: int, number: int = 118) -> np.ndarray:
    made = np.zeros(count, layout)
    made["length"], made["rtype"], made["publisher_id"], made["instrument_id"] = (
        layout.itemsize // 4,
        rtype,
        1,
        number,
    )
    made["ts_event"] = 1704205800_000000000 + np.arange(count)
    made["ts_recv"] = made["ts_event"] + 100_000
    made["price"], made["size"], made["action"], made["side"] = 4755_250000000, 3, b"T", b"B"
    made["sequence"] = np.arange(count)
    return made


#: Databento's client leaves files open and uses deprecated pandas functions.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
ONE_DAY = {"ESH4": [("2024-01-02", "2024-01-03", "118")]}


@pytest.mark.parametrize("schema", ["trades", "tbbo", "ohlcv-1m"])
def test_every_version_gives_the_same_rows(shared, read, schema) -> None:
    first, *others = [read(shared / "data/dbn" / f"test_data.{schema}.{form}") for form in FORMS]
    assert len(first.rows()) == 2
    for other in others:
        assert other.keys == {"ESH2021"}
        np.testing.assert_array_equal(other.rows(), first.rows())


@pytest.mark.parametrize("name", ["test_data.trades.dbn.zst", "GLBX.MDP3_test_data.tbbo.dbn.zst",
                                  "futures_trades_2024-07-01T23-58_2024-07-02T00-02.dbn.zst"])  # fmt: skip
def test_trades_equal_those_of_databentos_own_reader(shared, read, name) -> None:
    path = shared / "data/dbn" / name
    theirs = db.DBNStore.from_file(path).to_ndarray()
    ours = read(path).rows()
    for field in TRADE.names:
        np.testing.assert_array_equal(ours[field], theirs[field])


def test_bars_of_two_products_are_separated(shared, read) -> None:
    path = shared / "data/dbn/futures_ohlcv-1m_2024-07-01T23-40_2024-07-02T00-10.dbn.zst"
    theirs = db.DBNStore.from_file(path).to_ndarray()
    ours = read(path)
    assert ours.qualities == {"bars_1m"}
    for key, number in (("ESU2024", 118), ("NQU2024", 4358)):
        mine = ours.rows(key)
        for field in ("ts_event", "open", "high", "low", "close", "volume"):
            np.testing.assert_array_equal(mine[field], theirs[theirs["instrument_id"] == number][field])


def test_mbo_counts_the_trade_and_not_its_fill(tmp_path, read) -> None:
    """One trade of 3 lots is a T and two F; counting F as well would give 6."""
    made = records(6, MBO, 160)
    made["action"] = [b"A", b"T", b"F", b"F", b"C", b"R"]
    made["size"] = [3, 3, 1, 2, 3, 0]
    path = tmp_path / "mbo.dbn"
    path.write_bytes(metadata("mbo", ["ESH4"], ONE_DAY) + made.tobytes())
    result = read(path)
    assert result.rows()["size"].tolist() == [3]
    assert result.counts.skipped == {"order events that are not trades": 5}


def test_records_other_than_trades_are_counted_by_reason(tmp_path, read) -> None:
    made = records(5, TRADES, 0)
    made["price"][1], made["size"][2], made["ts_event"][3] = 2**63 - 1, 0, 2**64 - 1
    path = tmp_path / "trades.dbn"
    path.write_bytes(metadata("trades", ["ESH4"], ONE_DAY) + made.tobytes())
    result = read(path)
    assert len(result.rows()) == 2
    assert result.counts.skipped == {"undefined price": 1, "zero or undefined size": 1, "no exchange time": 1}


def test_an_instrument_id_depends_on_the_date(tmp_path, read) -> None:
    """Number 118 is ESZ3 until 2 January and ESH4 from then on."""
    made = records(4, TRADES, 0)
    day = 86_400_000_000_000
    made["ts_event"][:2] -= np.uint64(day)
    made["ts_recv"][:2] -= np.uint64(day)
    spans = {"ESZ3": [("2024-01-01", "2024-01-02", "118")], "ESH4": [("2024-01-02", "2024-01-03", "118")]}
    path = tmp_path / "two.dbn"
    path.write_bytes(metadata("trades", ["ESZ3", "ESH4"], spans) + made.tobytes())
    result = read(path)
    assert [(b.contract.root, b.contract.month, len(b.rows)) for b in result.batches] == [
        ("ES", 12, 2),
        ("ES", 3, 2),
    ]


def test_spreads_options_and_unknown_symbols_are_counted(tmp_path, read) -> None:
    names = ["ESH4-ESM4", "UD:1V: VT 2301939", "ESH4 C4800", "QQQH4", "MESH4", "ESH4"]
    spans = {name: [("2024-01-02", "2024-01-03", str(200 + i))] for i, name in enumerate(names)}
    made = np.concatenate([records(2, TRADES, 0, 200 + i) for i in range(len(names))])
    path = tmp_path / "parent.dbn"
    path.write_bytes(metadata("trades", ["ES.FUT"], spans, stype_in="parent") + made.tobytes())
    result = read(path)
    assert result.keys == {"MESH2024", "ESH2024"}
    assert result.counts.skipped == {
        "trades of spreads and combinations": 4, "trades of options": 2, "trades of products not in the universe": 2,
    }  # fmt: skip


def test_a_capture_of_several_schemas_is_read_through_one(shared, read) -> None:
    """The capture holds trades, mbo, mbp-1 and bars of the same market: only its 2 trades count."""
    result = read(shared / "data/dbn/LIVE_test_data.live.dbn.zst")
    assert result.rows()["price"].tolist() == [4756_000000000] * 2
    assert result.keys == {"ESZ2024"}
    assert result.counts.skipped == {"records of other kinds": 24}


def test_records_across_chunks_frames_and_send_times(tmp_path, read, monkeypatch) -> None:
    monkeypatch.setattr("outcry.recordings.formats.dbn_stream.CHUNK", 1_000)
    layout = np.dtype([*TRADES.descr, ("ts_out", "<u8")])
    made = records(1_000, layout, 0)
    whole = metadata("trades", ["ESH4"], ONE_DAY, ts_out=True) + made.tobytes()
    cut = len(whole) // 2
    pack = zstandard.ZstdCompressor(write_checksum=True).compress
    path = tmp_path / "frames.dbn.zst"
    path.write_bytes(pack(whole[:cut]) + pack(b"") + pack(whole[cut:]))
    np.testing.assert_array_equal(read(path).rows()["sequence"], np.arange(1_000))


@pytest.mark.parametrize(("schema", "advice"), [("ohlcv-1h", "ohlcv-1m"), ("ohlcv-1d", "ohlcv-1m")])
def test_coarse_bars_are_refused_with_advice(shared, refused, schema, advice) -> None:
    assert advice in str(refused(shared / "data/dbn" / f"test_data.{schema}.dbn.zst"))


@pytest.mark.parametrize("schema", ["definition", "statistics", "status", "mbp-10", "bbo-1s"])
def test_files_without_trades_are_refused(shared, read, schema) -> None:
    assert read(shared / "data/dbn" / f"test_data.{schema}.dbn.zst") is None


def test_an_unmapped_instrument_id(tmp_path, read, refused) -> None:
    path = tmp_path / "numbers.dbn"
    path.write_bytes(metadata("trades", ["ES.v.0"], {"ES.v.0": [("2024-01-02", "2024-01-03", "118")]},
                              stype_in="continuous") + records(2, TRADES, 0).tobytes())  # fmt: skip
    assert "--contract" in str(refused(path))
    assert read(path, contract="ESH4").keys == {"ESH2024"}


def test_two_instrument_ids_of_one_contract_are_refused(tmp_path, refused) -> None:
    made = np.concatenate([records(2, TRADES, 0, 1), records(2, TRADES, 0, 2)])
    path = tmp_path / "numbers.dbn"
    path.write_bytes(metadata("trades", ["ES.v.0", "NQ.v.0"], stype_in="continuous") + made.tobytes())
    assert "raw symbols" in str(refused(path, contract="ESH4"))


def test_contract_selects_and_never_overrules(shared, read, refused) -> None:
    path = shared / "data/dbn/futures_ohlcv-1m_2024-07-01T23-40_2024-07-02T00-10.dbn.zst"
    result = read(path, contract="NQU4")
    assert result.keys == {"NQU2024"}
    assert result.counts.skipped == {"rows of other contracts than --contract": 30}
    assert "ESU2024" in str(refused(path, contract="GCQ4"))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_header_of_ten_gigabytes_is_refused_before_it_is_read(tmp_path, refused, version) -> None:
    path = tmp_path / "claims.dbn"
    path.write_bytes(b"DBN" + bytes([version]) + b"\xff\xff\xff\x7f" + b"\0" * 200)
    assert "too large" in str(refused(path))
    packed = tmp_path / "claims.dbn.zst"
    packed.write_bytes(zstandard.compress(path.read_bytes()))
    assert "too large" in str(refused(packed))


def test_truncation_names_the_record(tmp_path, refused) -> None:
    path = tmp_path / "short.dbn"
    path.write_bytes(metadata("trades", ["ESH4"], ONE_DAY) + records(3, TRADES, 0).tobytes()[:-1])
    assert "record 3" in str(refused(path))


def test_truncation_inside_a_frame_is_seen_at_every_byte(shared, tmp_path, refused) -> None:
    whole = (shared / "data/dbn/test_data.trades.dbn.zst").read_bytes()
    path = tmp_path / "cut.dbn.zst"
    for length in range(1, len(whole)):
        path.write_bytes(whole[:length])
        refused(path)


def test_a_mislabelled_schema_is_refused(tmp_path, refused) -> None:
    path = tmp_path / "labelled.dbn"
    path.write_bytes(metadata("mbo", ["ESH4"], ONE_DAY) + records(3, TRADES, 0).tobytes())
    assert "mislabelled" in str(refused(path))


def test_impossible_symbol_counts_allocate_no_memory(tmp_path, universe) -> None:
    """Each u32 after the fixed part set to 2³²-1, one at a time: refused or read, and never allocated."""
    from tests.recordings.test_files_fuzz import attempt

    header = metadata("trades", ["ESH4"], ONE_DAY)
    path = tmp_path / "counts.dbn"
    for at in range(8, len(header) - 4):
        path.write_bytes(
            header[:at] + b"\xff\xff\xff\xff" + header[at + 4 :] + records(2, TRADES, 0).tobytes()
        )
        attempt(Path(path), universe)
