"""Coming in: set-up, sign-in, invitation, reset, confirmation, sign-out."""

from collections.abc import Sequence

from outcry.web.desk import Page

PAGES: Sequence[Page] = ()
