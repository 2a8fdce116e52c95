"""Arrow, which carries no types: the one place where that is said, so that every other module is checked.

`Array` and `RecordBatch` name what a value is where the checker sees anything.
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
