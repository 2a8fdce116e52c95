"""How one signs in, browsers signed in, and what was done in one's name: `/account/security`."""

from collections.abc import Sequence

from outcry.web.desk import Page

PAGES: Sequence[Page] = ()
