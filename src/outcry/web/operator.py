"""What an operator looks after: users, data and grants, feeds: `/operator`."""

from collections.abc import Sequence

from outcry.web.desk import Page

PAGES: Sequence[Page] = ()
