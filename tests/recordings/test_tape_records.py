"""The records of a tape file: the fields of the rows and constants, whatever the layout of the rows."""

import databento_dbn as dbn
import numpy as np
import pytest

from outcry.recordings.tape import _BLOCK_RECORDS, _records
from outcry.trades.records import TRADE, Quality, trade_layout

RECORD = np.dtype(dbn.TradeMsg._dtypes)


def record_by_field(rows: np.ndarray) -> np.ndarray:
    """Return trades as records, copied field by field."""
    records = np.zeros(len(rows), RECORD)
    records["length"], records["instrument_id"], records["action"] = RECORD.itemsize // 4, 1, b"T"
    for name in TRADE.names:
        records[name] = rows[name]
    records["ts_recv"] = rows["ts_event"]
    return records


@pytest.mark.parametrize("count", [0, 1, _BLOCK_RECORDS, 3 * _BLOCK_RECORDS + 5])
def test_records_have_the_fields_of_rows_in_any_layout(count: int) -> None:
    random = np.random.default_rng(count)
    views = random.integers(0, 256, count * RECORD.itemsize, np.uint8).view(RECORD).view(trade_layout(RECORD))
    packed = np.zeros(count, TRADE)
    for name in TRADE.names:
        packed[name] = views[name]
    for rows in (views, packed, views[::2], packed[1::3]):
        assert _records(rows, Quality.TICKS).tobytes() == record_by_field(rows).tobytes()
