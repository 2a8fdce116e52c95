"""Tickets: their content, expiry and purpose, and values that are not tickets."""

import pytest
from tests.people.memory_store import HandClock

from outcry.people.tickets import LASTING_NS, Tickets

SECRET = b"a secret of the tests, of 32 b.."
EARLIER = (
    "AUKEqb_cMqA3qBro1Wk9gvynqugbyPv7folsYJjKDn3OFGVtEL4rPt_nhfItP"
    "_--_P666IxpA8qLYFVoWUGFwzQgNgHkNFpT3bzFEl4UPQGkFrbkSWopNlq9fDA"
)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def tickets(clock: HandClock) -> Tickets:
    return Tickets(SECRET, clock)


def test_a_ticket_contains_its_facts_until_it_expires(tickets: Tickets, clock: HandClock) -> None:
    ticket = tickets.give("sign in", user="7", label="Schlüssel 😀")
    clock.at_ns += LASTING_NS - 1
    assert tickets.read("sign in", ticket) == {"user": "7", "label": "Schlüssel 😀"}
    clock.at_ns += 1
    assert tickets.read("sign in", ticket) is None


def test_a_ticket_without_an_end_never_expires(tickets: Tickets, clock: HandClock) -> None:
    ticket = tickets.give("unsubscribe", None, user="7")
    clock.pass_s(50 * 365 * 24 * 3600)
    assert tickets.read("unsubscribe", ticket) == {"user": "7"}


def test_a_ticket_is_valid_for_one_purpose_and_one_secret(tickets: Tickets, clock: HandClock) -> None:
    ticket = tickets.give("sign in", user="7")
    assert tickets.read("confirm", ticket) is None
    assert Tickets(b"another secret of 32 bytes ......", clock).read("sign in", ticket) is None
    assert Tickets(SECRET, clock).read("sign in", ticket) == {"user": "7"}


def test_a_fact_may_have_any_name(tickets: Tickets) -> None:
    """Names of form fields come from the sender of the form."""
    facts = {"self": "a", "purpose": "b", "lasting_ns": "c", "facts": "d", "": "e"}
    assert tickets.read("form", tickets.give("form", **facts)) == facts


def test_a_ticket_cannot_be_read_or_created_without_the_secret(tickets: Tickets) -> None:
    one, two = (tickets.give("sign in", user="a name nobody reads") for _ in range(2))
    assert one != two
    assert "name" not in one


@pytest.mark.parametrize("ticket", ["", "a", "e30", "=" * 8, "é" * 20, "A" * 80, "A" * 4001, "\0", "a.b.c"])
def test_a_malformed_ticket_is_invalid(tickets: Tickets, ticket: str) -> None:
    assert tickets.read("sign in", ticket) is None


def test_a_ticket_of_the_previous_version_is_read(clock: HandClock) -> None:
    """Created by version 0.1.0 before decision 0053: both versions run while a cluster is upgraded."""
    assert Tickets(SECRET, clock).read("sign in", EARLIER) == {"user": "7", "label": "Schlüssel"}
