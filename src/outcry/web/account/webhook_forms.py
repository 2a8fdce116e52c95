"""Forms of webhooks: read and validate what the user typed.

A form with an invalid entry changes nothing. It is shown again with the typed values and a fault at each invalid entry.
"""

from collections.abc import Mapping
from typing import get_args

from outcry.delivery.model import Severity, Target, Window
from outcry.delivery.subscriptions import LONGEST_LABEL, SubscriptionRefused, Wish
from outcry.web.account.delivery_words import address_words
from outcry.web.form_input import Faults
from outcry.web.language import Words, later
from outcry.web.page_context import PageContext, PageRequest

_LONGEST_ADDRESS = 1000
_CHOICES = ("target", "min_severity", "window", "ordered", "at_once")
_REFUSALS: Mapping[str, str] = {
    "label": later("The name is too long (maximum 60 characters)."),
    "too_many": later("You already have 20 webhooks. Remove one first."),
}


async def typed_in(context: PageContext, request: PageRequest) -> tuple[dict[str, str], Faults]:
    """Return what was typed into a webhook form, and the faults found while reading it."""
    form = await context.form(request)
    typed = {name: form.line(name) for name in _CHOICES}
    typed["label"] = form.line("label", LONGEST_LABEL)
    typed["address"] = form.line("address", _LONGEST_ADDRESS)
    typed["symbols"] = form.joined("symbols")
    return typed, form.faults


def wish_of(context: PageContext, typed: Mapping[str, str], faults: Faults, words: Words) -> Wish | None:
    """Return the webhook settings that the form asks for; None, with faults added, if an entry is invalid."""
    target = next((one for one in Target if one == typed["target"]), None)
    if target is None:
        faults["target"] = words("Choose where to send alerts.")
    severity = next((one for one in get_args(Severity) if one == typed["min_severity"]), None)
    if severity is None:
        faults["min_severity"] = words("Choose a minimum severity.")
    roots = tuple(dict.fromkeys(typed["symbols"].split()))
    if any(root not in offered(context) for root in roots):
        faults["symbols"] = words("Choose symbols from the list.")
    window = next((one for one in get_args(Window) if one == typed["window"]), None)
    if target is Target.EMAIL and window is None:
        faults["window"] = words("Choose a sending schedule.")
    if faults or target is None or severity is None:
        return None
    mail = target is Target.EMAIL
    return Wish(
        target, typed["address"], typed["label"], roots, severity,
        ordered=target is Target.HTTPS and typed["ordered"] == "yes",
        window=window if mail and window is not None else "hour", at_once=not mail or typed["at_once"] == "yes",
    )  # fmt: skip


def offered(context: PageContext) -> dict[str, str]:
    """Return the products to which a webhook can be limited: their names by root (such as `ES`)."""
    products = context.services.universe.products.values()
    return {product.root: product.name for product in products if product.parent is None}


def refusal_words(words: Words, refusal: SubscriptionRefused) -> str:
    """Return the reason why a webhook was refused, in words."""
    found = _REFUSALS.get(refusal.code)
    return words(found) if found else address_words(words, refusal.code)
