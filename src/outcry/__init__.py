"""Outcry: where the auction stands, computed from trades by stated rules.

`outcry.profile(...)` computes a session's profile from any dataframe; the service and command line are in `outcry.cli`.
Educational context, never advice; market data keeps its owner's licence.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outcry.library import Profile, profile

__version__ = "0.1.0"
__all__ = ["Profile", "__version__", "profile"]


def __getattr__(name: str) -> Any:
    """Load the library when it is asked for: the service and the command line do not need it."""
    if name in {"Profile", "profile"}:
        from outcry import library  # noqa: PLC0415

        return getattr(library, name)
    raise AttributeError(f"module 'outcry' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the names of the library too, without loading it."""
    return sorted({*globals(), *__all__})
