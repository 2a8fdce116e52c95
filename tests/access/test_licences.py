from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outcry.access.licences import OPERATOR, Grant, Scope, resolve
from outcry.access.tiers import REQUESTS_ALLOWED

HOUR = 3600 * 10**9
CLOSE = 1_700_000_000 * 10**9
DAY = date(2013, 10, 8)


def grant(grantee: str = "everyone", **other: object) -> Grant:
    fields: dict[str, object] = {
        "scope": "completed",
        "roots": (),
        "from_date": None,
        "until_date": None,
        "embargo_ns": 24 * HOUR,
        **other,
    }
    return Grant(grantee, **fields)  # type: ignore[arg-type]


def test_own_recordings_need_no_grant() -> None:
    scope = resolve(3, 7, "free", [])
    assert scope.owners == (3,)
    assert scope.may_see(3, "ES", DAY, CLOSE, CLOSE)


def test_another_users_recordings_are_never_seen_whatever_is_granted() -> None:
    scope = resolve(3, 7, "admin", [grant(), grant("tier:admin", embargo_ns=0), grant("user:4")])
    assert scope.visible_from(4, "ES", DAY, CLOSE) is None
    assert 4 not in scope.owners


@pytest.mark.parametrize(
    ("grantee", "holds"),
    [
        ("everyone", True),
        ("tier:pro", True),
        ("user:3", True),
        ("key:7", True),
        ("tier:free", False),
        ("user:7", False),
        ("key:3", False),
        ("user:33", False),
        ("", False),
    ],
)
def test_recipients_of_a_grant(grantee: str, holds: bool) -> None:
    scope = resolve(3, 7, "pro", [grant(grantee)])
    assert scope.owners == ((3, OPERATOR) if holds else (3,))
    assert (scope.visible_from(OPERATOR, "ES", DAY, CLOSE) is not None) is holds


def test_the_operators_data_is_seen_when_the_embargo_is_over_and_not_a_nanosecond_before() -> None:
    scope = resolve(3, 7, "free", [grant()])
    opens = CLOSE + 24 * HOUR
    assert scope.visible_from(OPERATOR, "ES", DAY, CLOSE) == opens
    assert not scope.may_see(OPERATOR, "ES", DAY, CLOSE, opens - 1)
    assert scope.may_see(OPERATOR, "ES", DAY, CLOSE, opens)


def test_of_several_grants_the_shortest_embargo_counts() -> None:
    scope = resolve(
        3, 7, "free", [grant(), grant("user:3", embargo_ns=HOUR), grant("key:7", embargo_ns=2 * HOUR)]
    )
    assert scope.visible_from(OPERATOR, "ES", DAY, CLOSE) == CLOSE + HOUR


def test_a_shorter_embargo_on_another_product_does_not_count() -> None:
    scope = resolve(3, 7, "free", [grant(), grant(roots=("GC",), embargo_ns=0)])
    assert scope.visible_from(OPERATOR, "ES", DAY, CLOSE) == CLOSE + 24 * HOUR
    assert scope.visible_from(OPERATOR, "GC", DAY, CLOSE) == CLOSE


@pytest.mark.parametrize(
    ("day", "seen"),
    [
        (date(2013, 10, 6), False),
        (date(2013, 10, 7), True),
        (date(2013, 10, 11), True),
        (date(2013, 10, 12), False),
    ],
)
def test_both_dates_of_a_grant_are_included(day: date, seen: bool) -> None:
    scope = resolve(3, 7, "free", [grant(from_date=date(2013, 10, 7), until_date=date(2013, 10, 11))])
    assert (scope.visible_from(OPERATOR, "ES", day, CLOSE) is not None) is seen


def test_a_live_grant_shows_no_completed_session() -> None:
    assert resolve(3, 7, "free", [grant(scope="live")]).visible_from(OPERATOR, "ES", DAY, CLOSE) is None


def test_no_user_has_the_operators_id() -> None:
    """Otherwise the operator's data would belong to a user, who would see it without a grant."""
    with pytest.raises(ValueError, match="operator"):
        Scope(OPERATOR, ())


@given(st.lists(st.sampled_from([grant(), grant("user:3"), grant("user:4"), grant("tier:pro")])))
def test_grants_to_others_do_not_change_a_scope(others: list[Grant]) -> None:
    mine = [item for item in others if item.grantee in ("everyone", "user:3")]
    assert resolve(3, 7, "free", others) == resolve(3, 7, "free", mine)
    assert hash(resolve(3, 7, "free", others)) == hash(resolve(3, 7, "free", mine))


def test_the_limits_of_the_interface() -> None:
    assert [REQUESTS_ALLOWED[tier] for tier in ("anonymous", "free", "pro", "admin")] == [30, 30, 120, 600]
