"""The API reference and the pages of error codes: `/docs`, `/errors`."""

from collections.abc import Sequence

from outcry.web.desk import Page

PAGES: Sequence[Page] = ()
