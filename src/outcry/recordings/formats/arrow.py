"""Access to pyarrow without types, in one module so that type checking stays strict elsewhere.

`Array` and `RecordBatch` document the type of a value.
"""

from importlib import import_module
from typing import Any

pa: Any = import_module("pyarrow")
pc: Any = import_module("pyarrow.compute")
pv: Any = import_module("pyarrow.csv")
pq: Any = import_module("pyarrow.parquet")

Array = Any
RecordBatch = Any

#: Base class of Arrow's errors, including those for invalid values.
ArrowInvalid: type[Exception] = pa.ArrowInvalid
ArrowError: type[Exception] = pa.ArrowException
