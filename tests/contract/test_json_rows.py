"""A statement that reads its rows from one parameter, on both engines."""

from sqlalchemy import select
from tests.contract.databases import Place

from outcry.database import schema
from outcry.database.json_rows import insert_rows, json_rows, json_values, list_of, values_of

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


def test_values_are_those_of_the_list(place: Place) -> None:
    """The values keep their type, so a number does not match a text."""
    revision = schema.revision.c.n
    names = [row[1] for row in ROWS if row[1]]
    table = json_rows("given", number=int, text=str, other=str).c
    with place.open().reading() as connection:
        found = select(revision).where(revision.in_(json_values(int)))
        (number,) = connection.execute(select(revision)).scalars()
        assert connection.execute(found, list_of([number, 2**62])).scalars().all() == [number]
        assert connection.execute(found, list_of([])).scalars().all() == []
        found = select(table.text).where(table.text.in_(json_values(str)))
        assert connection.execute(found, {**values_of(ROWS), **list_of([names[1], "7"])}).scalars().all() == [
            names[1]
        ]


def test_inserted_rows_are_read_unchanged(place: Place) -> None:
    columns = {"stream": str, "position": int}
    rows = [("quotes \"' and \\", 2**62), ("ü 日本", 0)]
    database = place.open()
    with database.write("nothing") as connection:
        insert_rows(connection, schema.positions, columns, rows)
    with database.reading() as connection:
        read = connection.execute(select(schema.positions.c.stream, schema.positions.c.position))
        assert sorted(map(tuple, read)) == sorted(rows)
