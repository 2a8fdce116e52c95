"""Build a table with any of the supported dataframe libraries that is installed."""

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

#: In order of preference; a library that the program has imported already goes first.
LIBRARIES = ("pandas", "polars", "pyarrow")


def build_frame(columns: Mapping[str, Sequence[Any]], library: str | None = None) -> Any:
    """Return a table with these columns: a `pandas.DataFrame`, `polars.DataFrame` or `pyarrow.Table`.

    library: one of `LIBRARIES`. If it is None, take the one that the program has imported, or else the first that is
    installed. Raises `ImportError` if none is installed.
    """
    if library is not None and library not in LIBRARIES:
        raise ValueError(f"Unknown library {library!r}. Use one of {', '.join(LIBRARIES)}.")
    wanted = LIBRARIES if library is None else (library,)
    for name in sorted(wanted, key=lambda each: each not in sys.modules):
        try:
            module = import_module(name)
        except ModuleNotFoundError:
            continue
        return module.table(dict(columns)) if name == "pyarrow" else module.DataFrame(dict(columns))
    needed = "pandas, Polars or pyarrow" if library is None else library
    raise ImportError(f"A table needs {needed}. Run: pip install {wanted[0]}")
