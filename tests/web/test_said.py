"""What a form says is taken as a person could have typed it."""

from outcry.web.page_context import said


def test_an_entry_holds_nothing_that_a_database_cannot_be_asked_about() -> None:
    """PostgreSQL refuses a NUL in a text, where SQLite takes it: a request with one is answered alike on both."""
    assert said({"email": "\0 ann\0@example.com \0"}, "email") == "ann@example.com"
    assert said({}, "email") == ""
