"""Users over the real store: links created by the installed command are accepted for sign-in."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from outcry.app.installation import Installation, open_installation
from outcry.app.people import people_of
from outcry.app.settings import BadSettings, Settings, read_settings
from outcry.people.browser_sessions import Origin, SignedIn
from outcry.people.refusals import Reason, Refused

OUTCRY = Path(sys.executable).with_name("outcry")
HERE = Origin("192.0.2.1", "Firefox")
PASSWORD, OTHER_PASSWORD = "slow green kettle drum", "seven brass lanterns"


def outcry(data: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    known = {"PATH": os.environ["PATH"], "HOME": str(data), "OUTCRY_DATA": str(data)}
    return subprocess.run(
        [OUTCRY, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env=known | environment,
        check=False,
    )


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    with open_installation(Settings(data=str(tmp_path))) as opened:
        yield opened


def token_of(link: str) -> str:
    return link.partition("?token=")[2].strip()


def test_an_operator_is_invited_from_the_machine_and_lets_others_in(
    installation: Installation, tmp_path: Path
) -> None:
    done = outcry(tmp_path, "users", "invite", "owner@example.com", "--operator", OUTCRY_PORT="8321")
    assert done.stdout.startswith("http://localhost:8321/invite?token=")
    identity = people_of(installation).identity
    owner = identity.accept(token_of(done.stdout), "", PASSWORD, HERE)
    assert owner.user.role == "operator"
    assert not identity.first_run.is_pending()
    again = outcry(tmp_path, "users", "invite", "owner@example.com")
    assert (again.returncode, again.stdout) == (1, "")
    assert "owner@example.com already has an account" in again.stderr
    (line,) = outcry(tmp_path, "users", "list").stdout.splitlines()
    email, role, tier, _, ways, disabled = line.split("\t")
    assert (email, role, tier, ways, disabled) == ("owner@example.com", "operator", "free", "password", "")


def test_an_account_made_with_a_key_is_let_in_by_a_link(installation: Installation, tmp_path: Path) -> None:
    assert outcry(tmp_path, "keys", "create", "--email", "ann@example.com").returncode == 0
    made = outcry(tmp_path, "users", "operator", "Ann@example.com")
    assert made.returncode == 0
    assert "outcry users reset ann@example.com" in made.stderr
    link = outcry(
        tmp_path, "users", "reset", "ann@example.com", OUTCRY_PUBLIC_URL="https://outcry.example.com"
    ).stdout
    assert link.startswith("https://outcry.example.com/reset/new?token=")
    identity = people_of(installation).identity
    signed = identity.reset(token_of(link), PASSWORD, HERE)
    assert isinstance(signed, SignedIn)
    assert signed.user.role == "operator"
    with pytest.raises(Refused) as no:
        identity.reset(token_of(link), OTHER_PASSWORD, HERE)
    assert no.value.reason is Reason.LINK
    assert isinstance(identity.sign_in("ann@example.com", PASSWORD, HERE), SignedIn)


@pytest.mark.parametrize(
    ("arguments", "status", "expected"),
    [
        (("invite", "ann"), 2, "Invalid email address 'ann'"),
        (("reset", "nobody@example.com"), 1, "No account for 'nobody@example.com'"),
        (("operator", "nobody@example.com"), 1, "No account for 'nobody@example.com'"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    tmp_path: Path, arguments: tuple[str, ...], status: int, expected: str
) -> None:
    done = outcry(tmp_path, "users", *arguments)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.startswith("outcry: ")
    assert expected in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_what_one_process_ends_ends_in_another_within_a_second(
    installation: Installation, tmp_path: Path
) -> None:
    """Two houses over one database, as two processes have them; their clocks are the machine's."""
    with open_installation(Settings(data=str(tmp_path))) as other:
        identity = people_of(installation).identity
        signed = identity.set_up(identity.first_run.new_token(), "o@example.com", PASSWORD, HERE)
        there, now_ns = people_of(other).browser_sessions, other.clock.now_ns()
        there.refresh(now_ns, force=True)
        found = there.find(signed.token, now_ns)
        assert found is not None
        identity.sign_out(found[0], HERE)
        there.refresh(now_ns + 10**9)
        assert there.find(signed.token, now_ns + 10**9) is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"smtp_url": "smtp://u:hidden@h:1"}, "smtp_url needs mail_from"),
        (
            {"smtp_url": "smtp://u:hidden@h:1", "mail_from": "a@b.cd"},
            "smtp_url needs mail_from .* and public_url",
        ),
        ({"smtp_url": "http://u:hidden@h:1"}, "smtp_url"),
        ({"mail_from": "nobody"}, "mail_from"),
        ({"oidc_issuer": "https://login.example.com"}, "oidc_issuer needs oidc_client_id"),
        ({"oidc_issuer": "ftp://login.example.com"}, "oidc_issuer"),
        ({"cluster": "nats://u:hidden#1@h:1", "database_url": "postgresql://h/d"}, "cluster: a URL has"),
        ({"cluster": "nats://u:1?hidden@h:1", "database_url": "postgresql://h/d"}, "cluster: a URL has"),
        (
            {"cluster": "nats://u:hidden@h:65536", "database_url": "postgresql://h/d"},
            "cluster: a URL has",
        ),
        ({"cluster": "nats://u:hidden@h"}, "cluster needs database_url"),
    ],
)
def test_settings_that_are_of_no_use_alone_are_refused_without_their_secret(
    tmp_path: Path, given: dict[str, str], expected: str
) -> None:
    with pytest.raises(BadSettings, match=expected) as refused:
        read_settings({f"OUTCRY_{name.upper()}": value for name, value in given.items()}, data=str(tmp_path))
    assert "hidden" not in str(refused.value)


def test_mail_and_provider_come_from_the_settings(tmp_path: Path) -> None:
    settings = Settings(
        data=str(tmp_path), public_url="https://outcry.example.com", smtp_url="smtps://mail.example.com",
        mail_from="outcry@example.com", oidc_issuer="https://login.example.com", oidc_client_id="outcry",
        oidc_name="Example",
    )  # fmt: skip
    with open_installation(settings) as installation:
        assert people_of(installation).identity.mail_works()
        assert people_of(installation).identity.openid_name() == "Example"
