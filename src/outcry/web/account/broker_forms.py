"""What is typed about a connection, read and judged: the entries a broker asks for, and the products to bring.

Rules kept: what is typed into a secret field is never given back; what a broker asks for is the adapter's to say, and
worded in the reader's language.
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
#: Entries of the form that are not the broker's.
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
#: What a valid entry looks like, by broker and field.
_FORMATS: Mapping[tuple[str, str], str] = {
    ("databento", "key"): later("Databento keys start with db- and have 32 characters."),
}


@dataclass(frozen=True, slots=True)
class Entry:
    """Something to be entered, as a form asks for it."""

    name: str
    label: str
    hint: str
    secret: bool
    options: tuple[str, ...]
    usual: str
    optional: bool


@dataclass(frozen=True, slots=True)
class Sector:
    """Products to choose among: of one sector, by root."""

    name: str
    products: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Typed:
    """What a form held. `kept`: what may be given back, without secrets; `roots` apart by blanks."""

    given: Mapping[str, str]
    label: str
    roots: tuple[str, ...]
    kept: dict[str, str]
    faults: Faults


def entries_of(words: Words, broker: Broker) -> list[Entry]:
    """What a broker asks for, in the reader's language."""
    return [
        Entry(
            field.name, words(field.label), _sentence(words(field.hint)), field.secret, field.options,
            field.usual, field.optional,
        )
        for field in broker.fields
    ]  # fmt: skip


def _sentence(hint: str) -> str:
    """A hint as a sentence that others may follow."""
    return f"{hint}." if hint and hint[-1] not in ".!?" else hint


def sectors_of(context: PageContext, words: Words) -> list[Sector]:
    """The full-size products there are, by sector."""
    found: dict[str, dict[str, str]] = {}
    products = context.services.universe.products
    for root, name in offered(context).items():
        found.setdefault(products[root].sector, {})[root] = name
    return [Sector(words(SECTORS.get(sector, sector)), kept) for sector, kept in found.items()]


async def typed_in(context: PageContext, request: PageRequest, broker: Broker | None) -> Typed:
    """What was typed: a broker's entries, if one is asked about, a name, and products."""
    form = await context.form(request)
    fields = broker.fields if broker else ()
    given = {field.name: form.line(field.name, _LONGEST_ENTRY) for field in fields}
    label = form.line("label", LONGEST_LABEL)
    roots = tuple(dict.fromkeys(form.joined("roots").split()))
    plain = {field.name: given[field.name] for field in fields if not field.secret}
    return Typed(given, label, roots, plain | {"label": label, "roots": " ".join(roots)}, form.faults)


def judge_entries(broker: Broker, typed: Typed, faults: Faults, words: Words) -> None:
    """Find what is missing, and what is not of the list."""
    for field in broker.fields:
        entry = typed.given[field.name]
        if not entry and not field.optional:
            faults.setdefault(field.name, words(_MISSING))
        elif entry and field.options and entry not in field.options:
            faults.setdefault(field.name, words("Choose an option from the list."))


def judge_roots(
    context: PageContext, roots: Sequence[str], faults: Faults, words: Words, kept: Sequence[str] = ()
) -> None:
    """Find fault with products that cannot be brought. `kept`: what it brings already may stay."""
    known = {*offered(context), *kept}
    if not 0 < len(roots) <= MAX_ROOTS or any(root not in known for root in roots):
        faults.setdefault("roots", refusal_words(words, "roots"))


def refused(refusal: ConnectionRefused, broker: str, typed: Typed, faults: Faults, words: Words) -> None:
    """Show a refusal at the field it is about, or above the form if it is about no field."""
    field = "roots" if refusal.code == "roots" else refusal.field
    expected = _FORMATS.get((broker, field)) if refusal.code == "rejected" else None
    text = words(expected) if expected else refusal_words(words, refusal.code)
    faults[field if field in {*typed.given, "roots"} else ""] = text


def refusal_words(words: Words, code: str) -> str:
    """Why a connection is refused."""
    return words(_REFUSALS.get(code, _REJECTED), **({"most": MAX_ROOTS} if code == "roots" else {}))


def usual_of(broker: Broker) -> dict[str, str]:
    """What stands in an empty form."""
    return {field.name: field.usual for field in broker.fields if not field.secret} | {
        "label": "",
        "roots": "",
    }


def chosen_of(row: ConnectionRow) -> dict[str, str]:
    """What stands in the form of products and name of a connection."""
    return {"label": row.label, "roots": " ".join(row.symbols)}
