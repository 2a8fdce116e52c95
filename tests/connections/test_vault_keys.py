"""The vault's keys: created once, checked at each start, never replaced while in use, and rotated during operation."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from outcry.app.installation import Installation, open_installation
from outcry.app.settings import BadSettings, Settings, read_settings
from outcry.app.vault import CHECKED_FILE, VAULT_FILE, BadVaultKeys, exchanging, vault_of
from outcry.cli import backup, doctor, vaulting
from outcry.connections.model import ConnectionPhase, ConnectionRow, VaultKeyRow
from outcry.connections.store import SqlConnectionStore
from outcry.connections.vault import Vault, VaultBroken, VaultKeys
from outcry.connections.vault_store import SqlVaultStore

ENTRIES = {"key": "db-SuperSecretKey"}
A, B = "aa" * 32, "bb" * 32


@contextmanager
def opened(folder: Path, keys: str = "") -> Generator[tuple[Installation, Vault]]:
    with open_installation(Settings(data=str(folder), vault_keys=keys)) as installation:
        yield (
            installation,
            vault_of(installation.settings, SqlVaultStore(installation.database), installation.clock),
        )


def connected(installation: Installation, vault: Vault, broker: str = "databento") -> int:
    user = installation.store.ensure_user("ann@example.com", 1)
    row = ConnectionRow(0, user, broker, "Home", ConnectionPhase.CONNECTING, "", 1, ("ES",))
    return SqlConnectionStore(installation.database).add(row, vault.seal(user, broker, ENTRIES), 1)


def entered(installation: Installation, vault: Vault, number: int) -> Mapping[str, str]:
    store = SqlConnectionStore(installation.database)
    stored = store.entries(number)
    assert stored is not None
    return vault.open(next(row for row in store.rows() if row.id == number), stored)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Create a data folder with one connection, number 1."""
    with opened(tmp_path) as (installation, vault):
        connected(installation, vault)
    return tmp_path


def test_a_key_is_created_at_the_first_start_readable_by_its_owner_only(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with opened(tmp_path) as (_, vault):
        assert vault.keys.kids == ("k1",)
    path = tmp_path / VAULT_FILE
    assert path.stat().st_mode & 0o777 == 0o600
    kid, _, digits = path.read_text().strip().partition(" ")
    assert (kid, len(bytes.fromhex(digits))) == ("k1", 32)
    assert [entry.name for entry in tmp_path.glob(".vault*")] == []
    before = path.read_text()
    with opened(tmp_path):
        assert path.read_text() == before


def test_credentials_survive_a_restart(folder: Path) -> None:
    with opened(folder) as (installation, vault):
        assert entered(installation, vault, 1) == ENTRIES


def test_a_lost_key_in_use_is_not_replaced(folder: Path) -> None:
    text = (folder / VAULT_FILE).read_text()
    (folder / VAULT_FILE).unlink()
    with (
        pytest.raises(BadVaultKeys, match=r"vault\.key is missing.*Restore the key from a backup"),
        opened(folder),
    ):
        pass
    assert not (folder / VAULT_FILE).exists()
    (folder / VAULT_FILE).write_text(text)
    with opened(folder) as (installation, vault):
        assert entered(installation, vault, 1) == ENTRIES


def test_an_unused_lost_key_is_replaced_under_another_name(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    (tmp_path / VAULT_FILE).unlink()
    with opened(tmp_path) as (installation, vault):
        assert vault.keys.kids == ("k2",)
        assert entered(installation, vault, connected(installation, vault)) == ENTRIES
        assert [row.retired_ns is None for row in SqlVaultStore(installation.database).vault_keys()] == [
            False,
            True,
        ]
    assert vaulting.rotate(data=str(tmp_path)) == 0
    with opened(tmp_path) as (_, vault):
        assert vault.keys.kids == ("k3",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"k1 {B}\n", "The key k1 is not the one that this database was used with"),
        (f"k9 {B}\n", "The key k1 is missing"),
        ("", "contains no key"),
        ("k1 xyz\n", "Entry 1 is invalid. It needs a unique name and 32 bytes"),
        (f"k1 {A[:-2]}\n", "Entry 1 is invalid"),
        (f"k9 {A}\nk9 {B}\n", "Entry 2 is invalid"),
        (f"K1 {A}\n", "Entry 1 is invalid"),
        ("k1 \xff", "cannot be read"),
    ],
    ids=["another key", "another name", "empty", "no digits", "too short", "twice", "no name", "no text"],
)
def test_a_wrong_key_is_refused_at_the_start_and_not_quoted(folder: Path, text: str, message: str) -> None:
    (folder / VAULT_FILE).write_text(text, encoding="latin-1")
    with pytest.raises(BadVaultKeys, match=message) as refusal, opened(folder):
        pass
    assert "backup" in str(refusal.value)
    for secret in (A, B, A[:-2], "xyz"):
        assert secret not in str(refusal.value)


def test_a_key_is_decrypted_with_at_the_first_start_only(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later start compares a hash instead. With a damaged file of hashes it decrypts again and repairs the file."""
    decrypted: list[str] = []

    def counted(keys: VaultKeys, row: VaultKeyRow) -> bool:
        decrypted.append(row.kid)
        return recognises(keys, row)

    recognises = VaultKeys.recognises
    monkeypatch.setattr(VaultKeys, "recognises", counted)
    hashes = (folder / CHECKED_FILE).read_text()
    with opened(folder) as (installation, vault):
        assert entered(installation, vault, 1) == ENTRIES
    assert decrypted == []
    for damaged in (b"", b"\xff", hashes[:-9].encode()):
        (folder / CHECKED_FILE).write_bytes(damaged)
        with opened(folder):
            assert decrypted == ["k1"]
        assert (folder / CHECKED_FILE).read_text() == hashes
        decrypted.clear()
    digits = (folder / VAULT_FILE).read_text().split()[1]
    assert digits not in hashes


def test_a_service_without_its_key_file_encrypts_no_new_entries(tmp_path: Path) -> None:
    with opened(tmp_path) as (installation, vault):
        number = connected(installation, vault)
        (tmp_path / VAULT_FILE).unlink()
        with pytest.raises(VaultBroken, match="is missing"):
            connected(installation, vault, "massive")
        assert entered(installation, vault, number) == ENTRIES  # while it runs
        assert len(SqlConnectionStore(installation.database).rows()) == 1


def test_with_keys_in_the_settings_no_file_is_created(tmp_path: Path) -> None:
    with opened(tmp_path, f"a:{A}") as (installation, vault):
        connected(installation, vault)
    assert not (tmp_path / VAULT_FILE).exists()
    with (
        pytest.raises(BadVaultKeys, match="OUTCRY_VAULT_KEYS: The key a is missing"),
        opened(tmp_path, f"b:{B}"),
    ):
        pass
    with opened(tmp_path, f"b:{B},a:{A}") as (installation, vault):
        assert entered(installation, vault, 1) == ENTRIES
    with pytest.raises(BadVaultKeys, match=r"vault\.key is missing"), opened(tmp_path):
        pass


def test_a_malformed_setting_is_refused_by_name_and_not_quoted() -> None:
    for text in (A, f"a:{A[:-1]}", f"a:{A},", f"A:{A}", f"a {A}"):
        with pytest.raises(BadSettings, match="vault_keys") as refusal:
            read_settings({"OUTCRY_VAULT_KEYS": text})
        assert A[:-1] not in str(refusal.value)


def test_rotation_rewraps_all_entries_while_a_service_runs(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(folder) as (installation, vault):
        second = connected(installation, vault, "massive")
        before = (folder / VAULT_FILE).read_text().split()[1]
        assert vaulting.rotate(data=str(folder)) == 0
        assert "2 connections now use key k2." in capsys.readouterr().err
        # the running service opens old and new entries
        assert entered(installation, vault, 1) == entered(installation, vault, second) == ENTRIES
        third = connected(installation, vault, "tastytrade")
        assert entered(installation, vault, third) == ENTRIES
        assert SqlVaultStore(installation.database).uses() == {"k2": 3}
    text = (folder / VAULT_FILE).read_text()
    assert text.startswith("k2 ")
    assert before not in text
    assert (folder / VAULT_FILE).stat().st_mode & 0o777 == 0o600
    assert vaulting.status(data=str(folder)) == 0
    assert capsys.readouterr().out == "k1\t0\tretired\nk2\t3\tnewest\n"


def test_an_interrupted_rotation_is_finished_and_not_restarted(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(vaulting, "rewrapped", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            vaulting.rotate(data=str(folder))
    with opened(folder) as (installation, vault):  # a service can start in between
        assert vault.keys.kids == ("k2", "k1")
        assert entered(installation, vault, 1) == ENTRIES
    capsys.readouterr()
    assert vaulting.status(data=str(folder)) == 0
    assert capsys.readouterr().out == "k1\t1\tolder\nk2\t0\tnewest\n"
    assert vaulting.rotate(data=str(folder)) == 0
    with opened(folder) as (installation, vault):
        assert vault.keys.kids == ("k2",)
        assert entered(installation, vault, 1) == ENTRIES


def test_undecryptable_entries_stay_unchanged_and_stop_no_others(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(folder) as (installation, vault):
        fine = connected(installation, vault, "massive")
        with installation.database.write("nothing") as connection:
            connection.exec_driver_sql("UPDATE credentials SET wrapped = x'01' WHERE connection_id = 1")
    assert vaulting.rotate(data=str(folder)) == 1
    assert "still use k1. Credentials of 1 could not be decrypted" in capsys.readouterr().err
    with opened(folder) as (installation, vault):
        assert vault.keys.kids == ("k2", "k1")
        assert entered(installation, vault, fine) == ENTRIES
        SqlConnectionStore(installation.database).remove(1)
    assert vaulting.rotate(data=str(folder)) == 0
    with opened(folder) as (_, vault):
        assert vault.keys.kids == ("k2",)


def test_rotation_with_keys_in_the_settings_uses_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path, f"a:{A}") as (installation, vault):
        connected(installation, vault)
        monkeypatch.setenv("OUTCRY_VAULT_KEYS", f"a:{A}")
        assert vaulting.rotate(data=str(tmp_path)) == 1
        assert "OUTCRY_VAULT_KEYS has no new key. Put one at the front" in capsys.readouterr().err
        monkeypatch.setenv("OUTCRY_VAULT_KEYS", f"b:{B},a:{A}")
        assert vaulting.rotate(data=str(tmp_path)) == 0
        with pytest.raises(Exception, match="a was exchanged for a newer one: restart"):
            connected(installation, vault, "massive")  # a service that was not restarted
    with opened(tmp_path, f"b:{B}") as (installation, vault):
        assert entered(installation, vault, 1) == ENTRIES
    with pytest.raises(BadVaultKeys, match="The first key, a, is retired"):
        opened(tmp_path, f"a:{A},b:{B}").__enter__()


def test_simultaneous_rotations_are_refused(folder: Path) -> None:
    with exchanging(Settings(data=str(folder))), pytest.raises(BadVaultKeys, match="is running"):
        vaulting.rotate(data=str(folder))
    assert vaulting.rotate(data=str(folder)) == 0


def test_forgetting_a_lost_key_requires_its_owners_to_sign_in_again(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / VAULT_FILE).write_text(f"k1 {B}\n")
    assert vaulting.status(data=str(folder)) == 1
    assert vaulting.forget(data=str(folder)) == 0
    assert "1 connection would lose its credentials. To delete them, add --yes." in capsys.readouterr().out
    assert vaulting.forget(yes=True, data=str(folder)) == 0
    assert (folder / "vault.key.unusable").read_text() == f"k1 {B}\n"
    with opened(folder) as (installation, vault):
        assert vault.keys.kids == ("k2",)
        store = SqlConnectionStore(installation.database)
        assert store.entries(1) is None
        assert [(row.phase, row.code) for row in store.rows()] == [
            (ConnectionPhase.NEEDS_SIGN_IN, "entries_lost")
        ]
        user = store.rows()[0].user_id
        assert store.renew(1, "", vault.seal(user, "databento", ENTRIES))
        assert entered(installation, vault, 1) == ENTRIES
    assert vaulting.status(data=str(folder)) == 0


def test_a_lost_key_file_can_be_forgotten_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / VAULT_FILE).unlink()
    assert vaulting.forget(yes=True, data=str(folder)) == 0
    assert "Deleted the credentials of 1 connection." in capsys.readouterr().out
    with opened(folder) as (_, vault):
        assert vault.keys.kids == ("k2",)


def test_forgetting_keys_changes_nothing_if_all_are_present(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (folder / VAULT_FILE).read_text()
    assert vaulting.forget(yes=True, data=str(folder)) == 0
    assert capsys.readouterr().out == "0 connections would lose their credentials.\n"
    assert (folder / VAULT_FILE).read_text() == before
    with opened(folder) as (installation, vault):
        assert entered(installation, vault, 1) == ENTRIES


def test_the_doctor_checks_the_vault(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / VAULT_FILE).chmod(0o644)
    assert doctor.doctor(data=str(folder)) == 1
    assert (
        f"fault\t{folder / VAULT_FILE} is readable by other users. Run: chmod 600" in capsys.readouterr().out
    )
    (folder / VAULT_FILE).chmod(0o600)
    assert doctor.doctor(data=str(folder)) == 0
    (folder / VAULT_FILE).unlink()
    assert doctor.doctor(data=str(folder)) == 1
    assert "vault.key is missing" in capsys.readouterr().out


def test_a_backup_can_decrypt_its_entries(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    copy = tmp_path_factory.mktemp("backup")
    assert backup.backup(copy, data=str(folder)) == 0
    assert (copy / VAULT_FILE).stat().st_mode & 0o777 == 0o600
    assert vaulting.rotate(data=str(folder)) == 0
    with opened(copy) as (installation, vault):
        assert entered(installation, vault, 1) == ENTRIES
