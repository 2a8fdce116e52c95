"""Forms of broker connections: read and validate a broker's credentials, the connection's name and its symbols.

The value of a secret field is never sent back to the browser. The broker's adapter defines the fields; labels and hints
are translated here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from outcry.connections.model import MAX_ROOTS, Broker, ConnectionRefused, ConnectionRow
from outcry.web.account.webhook_forms import offered
from outcry.web.form_input import Faults
from outcry.web.language import Words, later
from outcry.web.levels.page import SECTORS
from outcry.web.page_context import PageContext, PageRequest

LONGEST_LABEL = 60
_LONGEST_ENTRY = 4000
#: Form entries that the connection form has for every broker.
OURS = frozenset({"csrf", "label", "roots"})
_MISSING = later("This field is required.")
_REJECTED = later("The broker rejected these entries. Check them and try again.")
_REFUSALS: Mapping[str, str] = {
    "unknown_broker": later("Unknown broker."),
    "not_hosted": later("This broker can only be connected from your own computer. See the broker guide."),
    "not_installed": later("Support for this broker is not installed. Ask the operator to add it."),
    "already_connected": later("This broker is already connected. Edit or disconnect that connection."),
    "missing": _MISSING,
    "rejected": later("Invalid value. Copy it again from the vendor's page."),
    "too_many": later("You have reached the maximum number of connections. Disconnect one first."),
    "roots": later("Choose 1 to %(most)d symbols from the list."),
    "invented": later("Brokers can't be connected in the demo. Its market is simulated."),
    "too_soon": later("Too many attempts: the vendor may block this service. Wait an hour and try again."),
    "pushed": later(
        "Your own program already sends a feed with this name. Stop it first, then connect here."
    ),
}
#: Format of a valid entry, by broker and field. Shown when the adapter rejects the entry.
_FORMATS: Mapping[tuple[str, str], str] = {
    ("databento", "key"): later("Databento keys start with db- and have 32 characters."),
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A field of a broker's connection form, with translated label and hint. `usual` is the default value."""

    name: str
    label: str
    hint: str
    secret: bool
    options: tuple[str, ...]
    usual: str
    optional: bool


@dataclass(frozen=True, slots=True)
class Sector:
    """The products of one sector, as choices in a form. `products`: name of each product by its root, such as `ES`."""

    name: str
    products: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Typed:
    """What the user typed into a connection form.

    `given`: the values of the broker's fields, secrets included. `roots`: the chosen products, such as `ES`.
    `kept`: the values without secrets, to fill the form again; there the roots are one text, separated by spaces.
    """

    given: Mapping[str, str]
    label: str
    roots: tuple[str, ...]
    kept: dict[str, str]
    faults: Faults


def entries_of(words: Words, broker: Broker) -> list[Entry]:
    """Return the form fields of a broker in the reader's language."""
    return [
        Entry(
            field.name, words(field.label), _sentence(words(field.hint)), field.secret, field.options,
            field.usual, field.optional,
        )
        for field in broker.fields
    ]  # fmt: skip


def _sentence(hint: str) -> str:
    """Return a hint with a final period, so that another sentence can follow."""
    return f"{hint}." if hint and hint[-1] not in ".!?" else hint


def sectors_of(context: PageContext, words: Words, broker: Broker | None) -> list[Sector]:
    """Return the full-size products by sector; if a broker is given, only those that it may have."""
    found: dict[str, dict[str, str]] = {}
    products = context.services.universe.products
    for root, name in offered(context).items():
        if broker is not None and not broker.offers(products[root]):
            continue
        found.setdefault(products[root].sector, {})[root] = name
    return [Sector(words(SECTORS.get(sector, sector)), kept) for sector, kept in found.items()]


async def typed_in(context: PageContext, request: PageRequest, broker: Broker | None) -> Typed:
    """Read a submitted connection form: name, symbols and, if a broker is given, the fields of that broker."""
    form = await context.form(request)
    fields = broker.fields if broker else ()
    given = {field.name: form.line(field.name, _LONGEST_ENTRY) for field in fields}
    label = form.line("label", LONGEST_LABEL)
    roots = tuple(dict.fromkeys(form.joined("roots").split()))
    plain = {field.name: given[field.name] for field in fields if not field.secret}
    return Typed(given, label, roots, plain | {"label": label, "roots": " ".join(roots)}, form.faults)


def judge_entries(broker: Broker, typed: Typed, faults: Faults, words: Words) -> None:
    """Add a form error for each required field that is empty, and each value that is not an option of its field."""
    for field in broker.fields:
        entry = typed.given[field.name]
        if not entry and not field.optional:
            faults.setdefault(field.name, words(_MISSING))
        elif entry and field.options and entry not in field.options:
            faults.setdefault(field.name, words("Choose an option from the list."))


def judge_roots(
    context: PageContext, roots: Sequence[str], faults: Faults, words: Words, kept: Sequence[str] = ()
) -> None:
    """Add a form error if too few or too many products are chosen, or one is unknown.

    `roots`: the chosen products, such as `ES`. `kept`: products of the existing connection, allowed even if the service
    no longer offers them.
    """
    known = {*offered(context), *kept}
    if not 0 < len(roots) <= MAX_ROOTS or any(root not in known for root in roots):
        faults.setdefault("roots", refusal_words(words, "roots"))


def refused(refusal: ConnectionRefused, broker: str, typed: Typed, faults: Faults, words: Words) -> None:
    """Add the reason of a refused connection as a fault: at the form field that it concerns, or above the form."""
    field = "roots" if refusal.code == "roots" else refusal.field
    expected = _FORMATS.get((broker, field)) if refusal.code == "rejected" else None
    text = words(expected) if expected else refusal_words(words, refusal.code)
    faults[field if field in {*typed.given, "roots"} else ""] = text


def refusal_words(words: Words, code: str) -> str:
    """Return the reader's text for the code of a refused connection."""
    return words(_REFUSALS.get(code, _REJECTED), **({"most": MAX_ROOTS} if code == "roots" else {}))


def usual_of(broker: Broker) -> dict[str, str]:
    """Return the default values of a new connection form, secret fields excluded."""
    return {field.name: field.usual for field in broker.fields if not field.secret} | {
        "label": "",
        "roots": "",
    }


def chosen_of(row: ConnectionRow) -> dict[str, str]:
    """Return the stored name and symbols of a connection, to fill the form that edits them."""
    return {"label": row.label, "roots": " ".join(row.symbols)}
