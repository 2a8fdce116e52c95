"""All pages, by address. A module a group of pages, each with its `PAGES`."""

from collections.abc import Iterator

from outcry.web import (
    account,
    alerts,
    brokers,
    guide,
    keys,
    levels,
    operator,
    reference,
    security,
    settings,
    signin,
    symbol,
    webhooks,
)
from outcry.web.desk import Page

MODULES = (
    levels,
    symbol,
    alerts,
    signin,
    security,
    account,
    keys,
    webhooks,
    brokers,
    operator,
    guide,
    reference,
    settings,
)


def all_pages() -> Iterator[Page]:
    """Every page there is."""
    for module in MODULES:
        yield from module.PAGES
