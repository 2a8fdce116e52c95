"""Whether this process runs its most used modules compiled by mypyc, or as plain Python (decision 0059)."""

from importlib.util import find_spec

#: Any module of the list in pyproject.toml: all are compiled together, or none.
_COMPILED_MODULE = "outcry.market.fold"


def is_compiled() -> bool:
    """Return whether the modules that take most of the time are compiled, without loading them."""
    spec = find_spec(_COMPILED_MODULE)
    return spec is not None and spec.origin is not None and not spec.origin.endswith(".py")


def form() -> str:
    """Return whether the hot modules are compiled, in the words of `outcry --version`."""
    return "compiled" if is_compiled() else "pure Python"
