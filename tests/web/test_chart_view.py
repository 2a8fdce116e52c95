"""Parsing the chart's view from a URL."""

import pytest

from outcry.web.symbol.chart_view import PARTS, USUAL_PARTS, ChartView, view_of


def test_an_address_that_says_nothing_is_the_usual_view() -> None:
    assert view_of({}, []) == ChartView("collapsed", "auto", None, 5, USUAL_PARTS)
    assert set(PARTS) - USUAL_PARTS == {"path", "candles"}


def test_every_field_of_the_toolbar_is_read() -> None:
    query = {"layout": "split", "letters": "blocks", "row": "6", "sessions": "20", "parts": "1"}
    assert view_of(query, ["ib", "path"]) == ChartView("split", "blocks", 6, 20, frozenset({"ib", "path"}))


def test_boxes_are_unticked_only_where_they_were_there() -> None:
    assert view_of({"parts": "1"}, []).show == frozenset()
    assert view_of({}, ["ib"]).show == USUAL_PARTS


def test_the_slots_in_view_are_read_where_both_ends_are_there_and_in_order() -> None:
    assert view_of({"from": "57.6", "to": "-20.3"}, []).span == (57.6, -20.3)
    for first, last in [
        ("5", ""),
        ("5", "5"),
        ("5", "6"),
        ("1e9", "1"),
        ("nan", "1"),
        ("123456", "1"),
        ("5", "1.25"),
    ]:
        assert view_of({"from": first, "to": last}, []).span is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("layout", "diagonal"), ("layout", ""), ("letters", "<script>"), ("row", "0"), ("row", "-1"), ("row", "7"),
        ("row", "1e9"), ("sessions", "61"), ("sessions", "5.0"), ("sessions", "\u0665"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_as_if_it_were_not_there(name: str, value: str) -> None:
    assert view_of({name: value}, ["nothing", "volume"]) == ChartView()
