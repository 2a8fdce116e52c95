"""Forms and script messages from the browser, limited in size and accepted from our own pages only.

The origin is checked before the body is read.
"""

from starlette.exceptions import HTTPException
from starlette.requests import Request

LONGEST_FORM = 64 * 1024
MOST_FIELDS = 200


class FormRefused(Exception):
    """The form did not come from one of our pages, or is too large."""


async def fields_of(request: Request) -> dict[str, list[str]]:
    """Return the entries of a form with all their values. Raises `FormRefused`."""
    refuse_foreign(request, "application/x-www-form-urlencoded")
    fields: dict[str, list[str]] = {}
    try:
        async with request.form(max_fields=MOST_FIELDS) as form:
            for name, value in form.multi_items():
                if isinstance(value, str):
                    fields.setdefault(name, []).append(value)
    except HTTPException:  # more fields than any of our forms
        raise FormRefused from None
    return fields


def refuse_foreign(request: Request, media_type: str) -> None:
    """Reject requests from other origins, of another content type, or too long. The origin `null` is accepted, because
    browsers send it for our pages' referrer policy. Raises `FormRefused`.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None and site not in {"same-origin", "none"}:
        raise FormRefused
    url = request.url
    here = f"{url.scheme}://{url.netloc}".lower()
    if request.headers.get("origin", "null").lower() not in {"null", here}:
        raise FormRefused
    length = request.headers.get("content-length", "")
    if not length.isascii() or not length.isdigit() or int(length) > LONGEST_FORM:
        raise FormRefused
    if request.headers.get("content-type", "").partition(";")[0] != media_type:
        raise FormRefused
