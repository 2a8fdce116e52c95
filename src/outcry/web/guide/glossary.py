"""The glossary `/glossary`: the trade terms used on the pages.

Definitions match what `docs/explanation/levels.md` computes; that page has the exact rules.
"""

from collections.abc import Sequence

from starlette.responses import Response

from outcry.web.page_context import Page, PageContext, PageRequest


async def glossary(context: PageContext, request: PageRequest) -> Response:
    """Show the glossary: trade terms, grouped by subject."""
    return context.page(request, "reference/glossary.html")


PAGES: Sequence[Page] = (("/glossary", ("GET",), glossary),)
