"""Language and theme, for everybody: `/language`, `/theme`."""

from collections.abc import Sequence

from outcry.web.desk import Page

PAGES: Sequence[Page] = ()
