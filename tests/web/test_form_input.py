"""Form input is parsed as a person may have typed it."""

from outcry.web.form_input import Form
from outcry.web.language import Languages


def test_an_entry_holds_nothing_that_a_database_cannot_be_asked_about() -> None:
    """PostgreSQL refuses a NUL in a text, where SQLite takes it: a request with one is answered alike on both."""
    form = Form({"email": ["\0 ann\0@example.com \0"]}, Languages.words("en"))
    assert form.text("email") == "ann@example.com"
    assert form.text("name") == ""


def test_an_entry_that_is_too_long_or_not_printable_is_a_fault() -> None:
    form = Form(
        {"label": ["first", "a" * 61], "name": ["a\x1bb"], "roots": ["ES", "NQ"]}, Languages.words("en")
    )
    assert form.line("label", 60) == "a" * 61
    assert form.line("name") == "a\x1bb"
    assert form.joined("roots") == "ES NQ"
    assert form.faults == {
        "label": "Too long (maximum 60 characters).",
        "name": "Contains characters that can't be printed.",
    }


def test_a_password_is_taken_as_typed() -> None:
    form = Form({"password": [" quiet lamps "]}, Languages.words("en"))
    assert form.secret("password") == " quiet lamps "
