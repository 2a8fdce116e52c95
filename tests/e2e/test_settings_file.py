"""A settings file with a secret is refused if others can read it."""

import sys
from pathlib import Path

import pytest

from outcry.app.settings import BadSettings, read_settings

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
SECRETS = {
    "secret": "0123456789abcdef",
    "vault_keys": "k1:" + 32 * "ab",
    "oidc_client_secret": "hush-hush-hush",
    "database_url": "postgresql://outcry:hush-hush-hush@db.example/outcry",
    "smtp_url": "smtps://outcry:hush-hush-hush@mail.example",
    "cluster": "nats://outcry:hush-hush-hush@nats.example",
}
#: What some of them are of use with only.
NEEDED = {
    "smtp_url": "mail_from = 'a@example.com'\npublic_url = 'https://outcry.example'\n",
    "cluster": "database_url = 'postgresql://db.example/outcry'\n",
}


def written(folder: Path, name: str, value: str, mode: int) -> Path:
    path = folder / "outcry.toml"
    path.write_text(f"{NEEDED.get(name, '')}{name} = '{value}'\n")
    path.chmod(mode)
    return path


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_a_readable_file_with_a_secret_is_refused(tmp_path: Path, name: str, mode: int) -> None:
    path = written(tmp_path, name, SECRETS[name], mode)
    with pytest.raises(BadSettings) as refused:
        read_settings({"OUTCRY_DATA": str(tmp_path)})
    assert f"chmod 600 {path}" in str(refused.value)
    assert name in str(refused.value)
    assert SECRETS[name] not in str(refused.value)
    assert "hush-hush-hush" not in str(refused.value)


@pytest.mark.parametrize("name", SECRETS)
def test_its_owners_alone_it_is_read(tmp_path: Path, name: str) -> None:
    written(tmp_path, name, SECRETS[name], 0o600)
    assert getattr(read_settings({"OUTCRY_DATA": str(tmp_path)}), name) == SECRETS[name]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("host", "0.0.0.0"),
        ("database_url", "postgresql://db.example/outcry"),
        ("database_url", "postgresql://outcry@db.example/outcry"),
        ("secret", ""),
    ],
)
def test_a_file_without_secrets_may_be_anybodys(tmp_path: Path, name: str, value: str) -> None:
    written(tmp_path, name, value, 0o644)
    assert getattr(read_settings({"OUTCRY_DATA": str(tmp_path)}), name) == value


def test_the_file_that_the_environment_names_counts_too(tmp_path: Path) -> None:
    path = written(tmp_path, "secret", SECRETS["secret"], 0o644)
    elsewhere = path.rename(tmp_path / "other.toml")
    with pytest.raises(BadSettings, match=f"chmod 600 {elsewhere}"):
        read_settings({"OUTCRY_DATA": str(tmp_path), "OUTCRY_CONFIG": str(elsewhere)})


def test_mail_comes_from_an_address() -> None:
    with pytest.raises(BadSettings, match=r"mail_from: .<a@example\.com>. is not an email address"):
        read_settings({"OUTCRY_MAIL_FROM": "<a@example.com>"})
