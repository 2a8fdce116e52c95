"""The routes of all pages. Each page module lists its own in `PAGES`."""

from collections.abc import Iterator

from outcry.web.account import (
    broker_checking,
    broker_page,
    broker_renewing,
    brokers,
    keys,
    log,
    mail_consent,
    presets,
    resending,
    settings,
    sink,
    webhook_confirming,
    webhook_secrets,
    webhook_testing,
    webhooks,
)
from outcry.web.account import page as account
from outcry.web.alerts import page as alerts
from outcry.web.guide import glossary, reference
from outcry.web.guide import page as guide
from outcry.web.levels import page as levels
from outcry.web.operator import data as operator_data
from outcry.web.operator import instruments as operator_instruments
from outcry.web.operator import page as operator
from outcry.web.page_context import Page
from outcry.web.sign_in import links, openid, passkeys, second_factor, security
from outcry.web.sign_in import page as signin
from outcry.web.symbol import downloads
from outcry.web.symbol import matching as match
from outcry.web.symbol import page as symbol

MODULES = (
    levels,
    symbol,
    downloads,
    match,
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
    presets,
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
    operator_instruments,
    guide,
    reference,
    glossary,
    settings,
)


def all_pages() -> Iterator[Page]:
    """Return the routes of all pages."""
    for module in MODULES:
        yield from module.PAGES
