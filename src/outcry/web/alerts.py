"""Alerts as they happen and of days past: `/alerts`."""

from collections.abc import Sequence

from outcry.web.desk import Page

PAGES: Sequence[Page] = ()
