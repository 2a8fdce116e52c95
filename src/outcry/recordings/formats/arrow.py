"""Untyped access to pyarrow, in one module so that type checking stays strict elsewhere.

`Array` and `RecordBatch` document what a value is.
"""

from importlib import import_module
from typing import Any

pa: Any = import_module("pyarrow")
pc: Any = import_module("pyarrow.compute")
pv: Any = import_module("pyarrow.csv")
pq: Any = import_module("pyarrow.parquet")

Array = Any
RecordBatch = Any

#: What Arrow raises for values that are not what they should be, and for everything it raises at all.
ArrowInvalid: type[Exception] = pa.ArrowInvalid
ArrowError: type[Exception] = pa.ArrowException
