"""Limits on pages and forms per user and client address within a minute."""

from typing import Any

import pytest
from tests.web.harness import WebHarness


def test_pages_beyond_a_minutes_measure_are_refused_with_when_to_come_back(
    own_harness: WebHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outcry.web.app.PAGES_A_MINUTE", 5)
    visitor = own_harness.visitor()
    found: list[Any] = [visitor.get("/errors") for _ in range(6)]
    assert [each.status for each in found] == [200] * 5 + [429]
    assert 1 <= int(found[-1].headers["retry-after"]) <= 60
    assert "text/html" in found[-1].headers["content-type"]


def test_forms_have_a_measure_of_their_own(own_harness: WebHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outcry.web.app.FORMS_A_MINUTE", 2)
    visitor = own_harness.visitor()
    statuses = [visitor.post("/theme", {"theme": "dark"}).status for _ in range(3)]
    assert statuses[-1] == 429
    assert 429 not in statuses[:2]
    assert visitor.get("/errors").status == 200
