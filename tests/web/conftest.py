"""Fixtures of the page tests: the browser and the services it opens."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest
from playwright.sync_api import Browser, expect, sync_playwright
from support.resolvers import ScriptedResolver
from tests.web.browsing import Opened, Window, launch, window
from tests.web.harness import WebHarness, demo_service, empty_service

from outcry.delivery.resolver import GuardedResolver

expect.set_options(timeout=60_000)


def nobody_found(name: str) -> list[str]:
    raise OSError(f"no name is asked for under test: {name}")


@pytest.fixture(scope="session", autouse=True)
def no_names() -> Iterator[None]:
    """Webhooks of the services lead nowhere: no name of the outside is found."""
    nobody = ScriptedResolver(nobody_found)
    scripted = partial(GuardedResolver, public=nobody, private=nobody)
    with patch("outcry.app.channels.GuardedResolver", scripted):
        yield


@pytest.fixture(scope="package")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebHarness]:
    """A service with a simulated market, shared by all tests that do not change it.

    It stops with the last test of this folder, because its feeds take processor time for as long as it runs."""
    with demo_service(tmp_path_factory.mktemp("service")) as staged:
        yield staged


@pytest.fixture
def own_harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebHarness]:
    """The same for one test alone, which may do with it as it likes."""
    with demo_service(tmp_path_factory.mktemp("own")) as staged:
        yield staged


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebHarness]:
    """A service as it is after the first start."""
    with empty_service(tmp_path_factory.mktemp("bare")) as staged:
        yield staged


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium; a module's, for while it runs the thread has an event loop, in which other tests start none."""
    with sync_playwright() as playwright:
        started = launch(playwright)
        yield started
        started.close()


@pytest.fixture
def opened(browser: Browser, harness: WebHarness) -> Opened:
    """Opens tabs on the shared service."""
    return partial(window, browser, harness)


@pytest.fixture
def tabs(browser: Browser) -> Iterator[Callable[..., Window]]:
    """Opens tabs that stay open until the test ends: `tabs(service, theme="light")`."""
    with ExitStack() as stack:

        def opens(harness: WebHarness, **options: Any) -> Window:
            return stack.enter_context(window(browser, harness, **options))

        yield opens
