"""Outcry: where the auction stands, computed from trades by stated rules.

`outcry.profile(...)` computes a session's profile from a file or any dataframe. `outcry.Client(...)` reads a running
service. Both need only `pip install openoutcry`; the service and the command line need the extra `serve`. Educational
context, never advice; market data keeps its owner's licence.
"""

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outcry.client import ApiError, AsyncClient, Client, Unreachable, verify_webhook
    from outcry.library import InvalidInput, Profile, profile

__version__ = "0.1.0"
__all__ = [
    "ApiError", "AsyncClient", "Client", "InvalidInput", "Profile", "Unreachable", "__version__", "profile",
    "verify_webhook",
]  # fmt: skip

#: The module of each public name.
_MODULES = MappingProxyType(
    {
        "ApiError": "outcry.client",
        "AsyncClient": "outcry.client",
        "Client": "outcry.client",
        "InvalidInput": "outcry.library",
        "Profile": "outcry.library",
        "Unreachable": "outcry.client",
        "profile": "outcry.library",
        "verify_webhook": "outcry.client",
    }
)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: the library needs no client, and the service needs neither."""
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'outcry' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names, without importing their modules."""
    return list(__all__)
