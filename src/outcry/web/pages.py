"""All pages by path. Each module lists a group of pages in its `PAGES`."""

from collections.abc import Iterator

from outcry.web import (
    account,
    alerts,
    broker_checking,
    broker_page,
    broker_renewing,
    brokers,
    downloads,
    glossary,
    guide,
    keys,
    levels,
    links,
    log,
    mail_consent,
    openid,
    operator,
    operator_data,
    passkeys,
    reference,
    resending,
    second_factor,
    security,
    settings,
    signin,
    sink,
    symbol,
    webhook_confirming,
    webhook_secrets,
    webhook_testing,
    webhooks,
)
from outcry.web.desk import Page

MODULES = (
    levels,
    symbol,
    downloads,
    alerts,
    signin,
    links,
    passkeys,
    openid,
    security,
    second_factor,
    log,
    account,
    keys,
    webhooks,
    webhook_confirming,
    webhook_secrets,
    webhook_testing,
    resending,
    sink,
    mail_consent,
    brokers,
    broker_page,
    broker_renewing,
    broker_checking,
    operator,
    operator_data,
    guide,
    reference,
    glossary,
    settings,
)


def all_pages() -> Iterator[Page]:
    """Return all pages."""
    for module in MODULES:
        yield from module.PAGES
