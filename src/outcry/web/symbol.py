"""One symbol: chart, levels, bias, playbook, alerts: `/s/ES`."""

from collections.abc import Sequence

from outcry.web.desk import Page

PAGES: Sequence[Page] = ()
