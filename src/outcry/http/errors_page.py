"""The page about errors, made from the codes and the catalogues: `python -m outcry.http.errors_page >
docs/errors.md`.

Rule kept: the page in the repository is what this returns; a test compares them.
"""

import sys

from outcry.http.errors import STATUS
from outcry.http.messages import Catalogue, load_catalogue

_EXTRAS = {
    "invalid_parameter": "`parameter`, `errors[]` of `{parameter, message}`",
    "unauthorized": "`reason`: `missing`, `malformed`, `unknown`, `revoked`, `expired`, `disabled`, `key_in_query` or "
    "`ticket`",
    "unknown_symbol": "`symbol`, `suggestions[]`",
    "not_found": "where a session is meant: `symbol`, `date`",
    "no_licensed_source": "`symbol`, `reasons[]`, with the reason `embargo` `embargo_until`, `fix` with `account` and "
    "`brokerGuide`",
    "invalid_request": "`reason`, and where it helps `event`, `next`",
    "rate_limited": "`retry_after_ms`; the header `Retry-After` in whole seconds",
    "method_not_allowed": "the header `Allow`",
    "starting": "the header `Retry-After`",
}
_WHEN = {
    "missing_symbol": "`symbol` is absent or empty.",
    "invalid_parameter": "A parameter is repeated, not UTF-8 or not of its form; or the request is no HTTP.",
    "unauthorized": "There is no valid key in the header `x-api-key`, or there is one in the address; or a "
    "stream's ticket is no good.",
    "forbidden": "The key is for something else: one that sends trades reads nothing, and one that reads sends none. "
    "Or `/metrics` is read from elsewhere than the machine itself.",
    "unknown_symbol": "No product or contract goes by that name.",
    "not_found": "The address, or a session of that date, does not exist.",
    "method_not_allowed": "The address is only read, or only sent to.",
    "no_licensed_source": "No completed session is licensed to this key yet.",
    "invalid_request": "What was sent is not of its form, or does not follow what came before.",
    "rate_limited": "The key (without a valid one: the client address) has used up its limit, or has its maximum of "
    "streams or connections open.",
    "internal_error": "A fault of the service; the log has it under the request id.",
    "upstream_unavailable": "The data store does not respond, or not within two seconds.",
    "starting": "The service has not reached its store since it was started, or it has no connection free.",
}
_PLACES = {name: f"‹{name}›" for name in ("parameter", "symbol", "limit", "seconds", "reason")}
_HEAD = """# Errors

<!-- Made by `python -m outcry.http.errors_page`; a test compares them. -->

Every refusal has one flat body: `code`, `message`, `status`, `request_id`, and what the code adds. Branch on
`code`: codes, statuses and field names never change, while `message` is written in the reader's language
(`Accept-Language`) and may. With `Accept: application/problem+json` the same members come as problem details
(RFC 9457), with `type`, `title`, `detail` and `instance` beside them.

| Status | Code | When | It adds |
|---|---|---|---|
"""


def page(catalogue: Catalogue) -> str:
    """Return the page."""
    rows = [
        f"| {status} | `{code}` | {_WHEN[code]} | {_EXTRAS.get(code, '')} |\n"
        for code, status in STATUS.items()
    ]
    words = [f"\n## Messages\n\nShipped in: {', '.join(f'`{name}`' for name in catalogue.languages)}.\n\n"]
    for code in STATUS:
        said = [catalogue.text(language, code, code, _PLACES) for language in catalogue.languages]
        words.append(f"- `{code}`: {' / '.join(said)}\n")
    return _HEAD + "".join(rows) + "".join(words)


if __name__ == "__main__":
    sys.stdout.write(page(load_catalogue()))
