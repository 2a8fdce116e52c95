"""Sectors of the operator's own products are filters of the Levels page."""

from outcry.web.levels.page import SECTORS, View

SECTORS_OF_PRODUCTS = {*SECTORS, "hong_kong"}


def test_a_sector_of_the_operator_is_a_filter() -> None:
    view = View.of({"sector": "hong_kong"}, SECTORS_OF_PRODUCTS)
    assert view.sector == "hong_kong"
    assert view.href() == "/?sector=hong_kong"


def test_a_sector_without_products_is_ignored() -> None:
    assert View.of({"sector": "hong_kong"}, SECTORS).sector == ""
