"""Untyped access to pyarrow. It is in one module, so that type checking stays strict elsewhere.

The names `Array` and `RecordBatch` only document the type of a value.
"""

from importlib import import_module
from typing import Any

from outcry.base.extras import MissingExtra

try:
    pa: Any = import_module("pyarrow")
except ModuleNotFoundError as problem:
    raise MissingExtra("Reading text and Parquet files", "files") from problem
pc: Any = import_module("pyarrow.compute")
pv: Any = import_module("pyarrow.csv")
pq: Any = import_module("pyarrow.parquet")

Array = Any
RecordBatch = Any

ArrowInvalid: type[Exception] = pa.ArrowInvalid
