"""A profile as HTML for notebooks: a table of its levels, and its letters on request.

All text is escaped. The markup has no script, no style sheet and no colour, so it follows the notebook's theme.
"""

from collections.abc import Iterator
from html import escape

from outcry.library.levels import ProfileLevels
from outcry.library.titles import price_of, title_of

#: A profile with more rows is shown without its letters, because a notebook stores them with each output.
_MOST_ROWS = 400


def html_of(profile: ProfileLevels) -> str:
    """Return the profile as HTML."""
    rows = "".join(
        f'<tr><th scope="row" style="text-align:left">{escape(name)}</th>'
        f'<td style="text-align:right">{escape(text)}</td></tr>'
        for name, text in _levels(profile)
    )
    table = (
        f'<table><caption style="text-align:left">{escape(title_of(profile))}</caption>'
        f'<thead><tr><th scope="col">Level</th><th scope="col">Price</th></tr></thead><tbody>{rows}</tbody></table>'
    )
    return f"<div>{table}{_letters(profile)}</div>"


def _levels(profile: ProfileLevels) -> Iterator[tuple[str, str]]:
    for name, price in (
        ("POC", profile.poc), ("VAH", profile.vah), ("VAL", profile.val), ("Volume POC", profile.vpoc),
        ("Volume VAH", profile.volume_vah), ("Volume VAL", profile.volume_val), ("IB high", profile.ib_high),
        ("IB low", profile.ib_low), ("High, poor" if profile.poor_high else "High", profile.high),
        ("Low, poor" if profile.poor_low else "Low", profile.low),
    ):  # fmt: skip
        if price == price:  # noqa: PLR0124 - presets without brackets have no initial balance
            yield name, price_of(profile, price)
    if profile.day_type:
        yield "Day type", profile.day_type.replace("_", " ")


def _letters(profile: ProfileLevels) -> str:
    if len(profile.rows) > _MOST_ROWS or not any(row.letters for row in profile.rows):
        return ""
    width = max(len(price_of(profile, row.price)) for row in profile.rows)
    lines = "\n".join(
        f"{price_of(profile, row.price):>{width}} {row.letters}".rstrip() for row in profile.rows
    )
    return f"<details><summary>{len(profile.rows)} rows</summary><pre>{escape(lines)}</pre></details>"
