"""A statement that reads its rows from one parameter, on both engines."""

from sqlalchemy import select
from tests.contract.databases import Place

from outcry.database.json_rows import json_rows, values_of

ROWS = [
    (1, "msg_1", None),
    (-(2**62), "quotes \"' and \\ backslashes", "ü 日本 \U0001f680"),
    (None, "", "[1]"),
]


def test_rows_are_read_as_they_were_given(place: Place) -> None:
    """Rows with integers to 63 bits, texts with any punctuation, and NULL are read unchanged."""
    query = select(json_rows("given", number=int, text=str, other=str))
    with place.open().reading() as connection:
        assert [tuple(row) for row in connection.execute(query, values_of(ROWS))] == ROWS
        assert connection.execute(query, values_of([])).all() == []
