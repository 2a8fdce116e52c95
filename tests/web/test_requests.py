"""A page needs few requests, even in a browser without a cache."""

import pytest
from tests.web.browsing import Opened

MOST = 15


@pytest.mark.parametrize(
    ("path", "shows"),
    [
        ("/", "#rows tr"),
        ("/s/ES", ".chart-pane canvas"),
        ("/s/ES?view=profile", ".profile-plot svg"),
        ("/s/ES?view=table", "table"),
        ("/alerts", "h1"),
    ],
)
def test_a_page_needs_few_requests(opened: Opened, path: str, shows: str) -> None:
    with opened() as tab:
        urls: list[str] = []
        tab.page.on("request", lambda request: urls.append(request.url))
        tab.go(path)
        tab.page.locator(shows).first.wait_for()
        tab.page.wait_for_load_state("load")
        assert len(urls) <= MOST, urls
        assert len(set(urls)) == len(urls), "nothing is requested twice"
