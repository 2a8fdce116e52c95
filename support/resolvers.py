"""Resolvers with scripted answers, instead of DNS."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable

from aiohttp.abc import AbstractResolver, ResolveResult

from outcry.delivery.resolver import resolve_results

#: Returns the IP addresses of a name, at once or later. Raises `OSError` if there are none.
Answers = Callable[[str], Iterable[str] | Awaitable[Iterable[str]]]


class ScriptedResolver(AbstractResolver):
    """Resolves names by a function."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the IP addresses that the function has for a host."""
        await asyncio.sleep(0)
        answer = self._answers(host)
        return resolve_results(host, port, await answer if isinstance(answer, Awaitable) else answer)

    async def close(self) -> None:
        """Do nothing."""
