"""Submitted forms and messages of our scripts: limited in size, and accepted from our own pages only.

The origin is checked before the body is read. Every page reads its form through `Form`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from starlette.exceptions import HTTPException
from starlette.requests import Request

if TYPE_CHECKING:
    from outcry.web.language import Words

MAX_FORM_BYTES = 64 * 1024
MAX_FIELDS = 200
#: Maximum length of an entry unless a page says otherwise, and of a password.
MAX_LENGTH = 500
MAX_SECRET_LENGTH = 4096

#: Errors of a form in the reader's language, by entry name; the empty name is the form as a whole.
Faults = dict[str, str]


class FormRefused(Exception):
    """The form did not come from one of our pages, or is too large."""


@dataclass(frozen=True, slots=True)
class Form:
    """The entries of a submitted form, and the faults found in them. An entry may have several values."""

    entries: dict[str, list[str]]
    words: Words
    faults: Faults = field(default_factory=Faults)

    def __contains__(self, name: str) -> bool:
        return name in self.entries

    def raw(self, name: str) -> str:
        """Return the last value of an entry unchanged, or an empty text."""
        return self.entries.get(name, [""])[-1]

    def text(self, name: str, max_length: int = MAX_LENGTH) -> str:
        """Return an entry without surrounding blanks, cut to `max_length`.

        NUL characters are removed, because PostgreSQL cannot store them.
        """
        return _trimmed(self.raw(name))[:max_length]

    def secret(self, name: str) -> str:
        """Return a password as typed, because spaces may be part of it.

        An overlong one is cut, but to a length that is still refused.
        """
        return self.raw(name)[:MAX_SECRET_LENGTH]

    def line(self, name: str, max_length: int = MAX_LENGTH) -> str:
        """Return an entry that must be one line. Adds a fault if it is too long or not printable."""
        return self._checked(name, self.raw(name), max_length)

    def joined(self, name: str) -> str:
        """Return all values of an entry that occurs several times, as one text separated by blanks.

        Adds a fault, as `line` does, for a value that is too long or not printable.
        """
        return self._checked(name, " ".join(self.entries.get(name, ())), MAX_LENGTH)

    def _checked(self, name: str, value: str, max_length: int) -> str:
        text = _trimmed(value)[: max_length + 1]
        if len(text) > max_length:
            self.faults[name] = self.words.ngettext(
                "Too long (maximum %(most)d character).",
                "Too long (maximum %(most)d characters).",
                max_length,
            ) % {"most": max_length}
        elif not text.isprintable():
            self.faults[name] = self.words("Contains characters that can't be printed.")
        return text


def _trimmed(value: str) -> str:
    return value.replace("\0", "").strip()


async def fields_of(request: Request, max_bytes: int = MAX_FORM_BYTES) -> dict[str, list[str]]:
    """Return the entries of a submitted form, each with all its values. Raises `FormRefused`."""
    refuse_foreign(request, "application/x-www-form-urlencoded", max_bytes)
    fields: dict[str, list[str]] = {}
    try:
        async with request.form(max_fields=MAX_FIELDS) as form:
            for name, value in form.multi_items():
                if isinstance(value, str):
                    fields.setdefault(name, []).append(value)
    except HTTPException:  # more fields than any of our forms
        raise FormRefused from None
    return fields


def started_by(request: Request) -> Literal["us", "another site", "unknown"]:
    """Return who made the browser send a request: one of our pages or the user ("us"), or a page of another site.

    The browser says so in a header, which scripts cannot change. All browsers since 2023 send the header, over HTTPS
    and to localhost; without it the result is "unknown".
    """
    site = request.headers.get("sec-fetch-site")
    if site is None:
        return "unknown"
    return "us" if site in {"same-origin", "none"} else "another site"


def refuse_foreign(request: Request, media_type: str, max_bytes: int = MAX_FORM_BYTES) -> None:
    """Raise `FormRefused` for a request from another site, of another content type, or too long.

    The header `Origin: null` is accepted, because our pages' referrer policy makes browsers send it.
    """
    if started_by(request) == "another site":
        raise FormRefused
    url = request.url
    origin = f"{url.scheme}://{url.netloc}".lower()
    if request.headers.get("origin", "null").lower() not in {"null", origin}:
        raise FormRefused
    length = request.headers.get("content-length", "")
    if not length.isascii() or not length.isdigit() or int(length) > max_bytes:
        raise FormRefused
    if request.headers.get("content-type", "").partition(";")[0] != media_type:
        raise FormRefused
