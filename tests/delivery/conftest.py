"""Fixtures of the delivery tests: a certificate authority, a server certificate, and event loops."""

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop
from tests.delivery.loopback import Authority
from tests.timeouts import within

NAME = "hooks.mysite.dev"
Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def context(authority: Authority) -> ssl.SSLContext:
    return authority.context(NAME, "other.mysite.dev", "127.0.0.1", "127.0.0.2")


@pytest.fixture(params=["uvloop", "asyncio"])
def run(request: pytest.FixtureRequest) -> Run:
    """Run a coroutine on each kind of event loop: the one of the service, and the other."""

    def running(coroutine: Coroutine[Any, Any, Any]) -> Any:
        factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop
        with asyncio.Runner(loop_factory=factory) as runner:
            return runner.run(within(coroutine, 60))

    return running
