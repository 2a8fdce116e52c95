"""Signals cancel work on loops of POSIX, and on loops of Windows, which accept no handlers."""

import asyncio
import os
import signal

import pytest

from outcry.base.signals import TERMINATION, cancel_on


@pytest.mark.parametrize("accepts_handlers", [True, False])
def test_a_signal_cancels_the_task(*, accepts_handlers: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def wait() -> str:
        loop = asyncio.get_running_loop()
        if not accepts_handlers:

            def refused(*_: object) -> None:
                raise NotImplementedError

            monkeypatch.setattr(loop, "add_signal_handler", refused)
        waiting = loop.create_future()
        cancel_on(waiting, TERMINATION)
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(10):
            await asyncio.wait([waiting])
        return "cancelled" if waiting.cancelled() else "not cancelled"

    before = signal.getsignal(signal.SIGTERM)
    try:
        assert asyncio.run(wait()) == "cancelled"
    finally:
        signal.signal(signal.SIGTERM, before)


def test_the_signals_that_end_a_process() -> None:
    assert signal.SIGTERM in TERMINATION
