"""What a browser sends to a page: forms, and messages of our scripts, within bounds and from a page of ours.

Rule kept: a browser says where a form comes from, and if it does, that has to be here; what is refused is not read.
"""

from starlette.exceptions import HTTPException
from starlette.requests import Request

LONGEST_FORM = 64 * 1024
MOST_FIELDS = 200


class FormRefused(Exception):
    """The form did not come from a page of ours, or is too large."""


async def fields_of(request: Request) -> dict[str, list[str]]:
    """The entries of a form, each with every value it was sent with. Raises `FormRefused`."""
    refuse_foreign(request, "application/x-www-form-urlencoded")
    fields: dict[str, list[str]] = {}
    try:
        async with request.form(max_fields=MOST_FIELDS) as form:
            for name, value in form.multi_items():
                if isinstance(value, str):
                    fields.setdefault(name, []).append(value)
    except HTTPException:  # more fields than any form of ours has
        raise FormRefused from None
    return fields


def refuse_foreign(request: Request, media_type: str) -> None:
    """Let pass what comes from here, is of that type and not too long. `null` as its origin says nothing: our pages
    forbid their address to be told, and browsers then leave it out of this header too. Raises `FormRefused`."""
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
