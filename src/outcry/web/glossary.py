"""The glossary: `/glossary`, every trade term of the pages in a sentence or two.

Rule kept: what a term means here is what `docs/levels.md` computes; that page has the rules to the tick.
"""

from collections.abc import Sequence

from starlette.responses import Response

from outcry.web.desk import Desk, Page, Visit


async def glossary(desk: Desk, visit: Visit) -> Response:
    """The terms, by subject."""
    return desk.page(visit, "reference/glossary.html")


PAGES: Sequence[Page] = (("/glossary", ("GET",), glossary),)
