"""Dates as people read them, in every language: on pages and in email.

A date in another year than the reader's current one shows its year.
"""

from datetime import date
from functools import lru_cache

from babel.dates import format_skeleton


@lru_cache(4096)  # a date takes as long as a row of a table
def date_text(day: date, language: str, *, year: int | None = None, weekday: bool = True) -> str:
    """Format a date: `Fri, Nov 20`, or `Nov 20` without the weekday.

    `year`: the current year, which the text omits. Emails pass None and show the year, because they may be read in
    another year.
    """
    skeleton = "MMMEd" if weekday else "MMMd"
    return format_skeleton(skeleton if day.year == year else f"y{skeleton}", day, locale=language)
