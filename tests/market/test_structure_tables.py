"""Every pair of phase and sign is in a table or named as impossible, and every entry of a table is reachable."""

from itertools import product
from types import ModuleType

import pytest

from outcry.market.alerts import ib_break, naked_poc, poor, va_accept, va_reject, va_test
from outcry.market.alerts.machine import MissingTransition, move

FAMILIES = [va_test, va_reject, va_accept, ib_break, naked_poc, poor]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_every_pair_is_in_the_table_or_named_as_impossible(family: ModuleType) -> None:
    pairs = set(product(family.Phase, family.Sign))
    assert set(family.TRANSITIONS) | family.NEVER == pairs
    assert set(family.TRANSITIONS) & family.NEVER == set()
    assert set(family.TRANSITIONS.values()) <= set(family.Phase)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_every_phase_is_reachable_from_the_first(family: ModuleType) -> None:
    reached = {next(iter(family.Phase))}
    for _ in family.Phase:
        reached |= {to for (of, _), to in family.TRANSITIONS.items() if of in reached}
    assert reached == set(family.Phase)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_an_impossible_pair_raises(family: ModuleType) -> None:
    for phase, sign in family.NEVER:
        with pytest.raises(MissingTransition, match=phase.value):
            move(family.TRANSITIONS, phase, sign)
