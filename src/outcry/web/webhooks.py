"""Webhook subscriptions: `/account/webhooks`."""

from collections.abc import Sequence

from outcry.web.desk import Page

PAGES: Sequence[Page] = ()
