"""Common guessed URLs redirect to the pages with their query, and never to another site."""

import pytest
from tests.web.harness import WebHarness


@pytest.mark.parametrize(
    ("asked", "page"),
    [
        ("/levels", "/"),
        ("/levels/", "/"),
        ("/symbols", "/"),
        ("/s", "/"),
        ("/levels?sector=metals&sort=name", "/?sector=metals&sort=name"),
        ("/symbol/ES", "/s/ES"),
        ("/symbol/ES/", "/s/ES"),
        ("/symbols/es", "/s/es"),
        ("/levels/GC?view=table", "/s/GC?view=table"),
        ("/s/ES/", "/s/ES"),
        ("/symbol/%40ES", "/s/%40ES"),
        ("/symbol/%C3%A9%3F%23", "/s/%C3%A9%3F%23"),
    ],
)
def test_guessed_addresses_lead_to_the_pages(harness: WebHarness, asked: str, page: str) -> None:
    reply = harness.visitor().get(asked)
    assert (reply.status, reply.headers["location"]) == (308, page)


def test_the_way_ends_at_the_page(harness: WebHarness) -> None:
    """`/symbol/es` leads to `/s/es`, that to the symbol's own address, and this is the page."""
    visitor, path = harness.visitor(), "/symbol/es?view=table"
    for _ in range(3):
        reply = visitor.get(path)
        path = reply.headers.get("location", path)
    assert (reply.status, path) == (200, "/s/ES?view=table")


@pytest.mark.parametrize(
    "asked",
    [
        "/symbol/%2F%2Fevil.example", "/symbol/%5Cevil.example", "/symbol//evil.example", "//evil.example/levels",
        "/levels?next=//evil.example", "/levels?\\evil.example", "/symbol/http:%2F%2Fevil.example",
        "/symbol/%0d%0aLocation:%20http:evil.example", "/symbol/.", "/symbol/..", "/symbol/" + "A" * 3000,
    ],
)  # fmt: skip
def test_no_address_leads_to_another_site(harness: WebHarness, asked: str) -> None:
    reply = harness.visitor().get(asked)
    assert reply.status in (308, 404)
    location = reply.headers.get("location", "/")
    assert location.startswith("/")
    assert not location.startswith(("//", "/\\"))
    assert not set("\r\n\\") & set(location)
    assert len(location) < 400
