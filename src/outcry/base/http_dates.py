"""Dates as people read them, in every language: on pages and in mail.

Rule kept: a date of another year than the reader's current one shows its year.
"""

from datetime import date

from babel.dates import format_skeleton


def date_text(day: date, language: str, *, year: int | None = None, weekday: bool = True) -> str:
    """Return a date in a language: `Fri, Nov 20`; without its weekday `Nov 20`. `year`: the current one, which is left
    out; mail passes none, because nobody knows when it is read."""
    skeleton = "MMMEd" if weekday else "MMMd"
    return format_skeleton(skeleton if day.year == year else f"y{skeleton}", day, locale=language)
