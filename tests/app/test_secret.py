"""The server's secret: created once, and never replaced while data depends on it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from outcry.app.installation import Installation, open_installation
from outcry.app.people import people_of
from outcry.app.secret import SECRET_FILE, MissingSecret
from outcry.app.settings import Settings
from outcry.delivery.model import Target
from outcry.delivery.subscriptions import Wish
from outcry.people.browser_sessions import Origin

NOW_NS = 1_767_366_245 * 10**9


def an_operator(installation: Installation) -> None:
    identity = people_of(installation).identity
    identity.set_up(identity.first_run.new_token(), "ann@example.com", "slow green kettle drum", Origin())


def a_key(installation: Installation) -> None:
    installation.keys.create("ann@example.com", "free", NOW_NS)


def a_subscription(installation: Installation) -> None:
    an_operator(installation)
    slack = "https://hooks.slack.com/services/T0AB12CD3/B0EF45GH6/abcdefgh12345678"
    wish = Wish(Target.SLACK, slack, "Desk", (), "info")
    people_of(installation).subscriptions.add(1, wish, NOW_NS)


@pytest.mark.parametrize("furnish", [an_operator, a_key, a_subscription])
def test_a_lost_secret_is_not_replaced_where_anything_rests_on_it(
    tmp_path: Path, furnish: Callable[[Installation], None]
) -> None:
    with open_installation(Settings(data=str(tmp_path))) as installation:
        furnish(installation)
    secret = (tmp_path / SECRET_FILE).read_text()
    (tmp_path / SECRET_FILE).unlink()
    with pytest.raises(
        MissingSecret, match=r"secret\.key is missing.*Restore it from a backup, or set OUTCRY_SECRET"
    ):
        open_installation(Settings(data=str(tmp_path))).__enter__()
    assert not (tmp_path / SECRET_FILE).exists()
    (tmp_path / SECRET_FILE).write_text(secret)
    with open_installation(Settings(data=str(tmp_path))) as installation:
        assert installation.secret == bytes.fromhex(secret)


def test_a_secret_nothing_rests_on_yet_is_made_anew(tmp_path: Path) -> None:
    with open_installation(Settings(data=str(tmp_path))) as installation:
        people_of(installation).identity.first_run.new_token()
        before = installation.secret
    (tmp_path / SECRET_FILE).unlink()
    with open_installation(Settings(data=str(tmp_path))) as installation:
        assert installation.secret != before
