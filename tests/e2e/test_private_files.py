"""Files with secrets are readable by their owner only, in any folder."""

from pathlib import Path

from outcry.app.installation import open_installation
from outcry.app.settings import Settings


def test_the_database_is_its_owners_even_in_an_open_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with open_installation(Settings(data=str(tmp_path))) as installation:
        installation.store.ensure_user("ann@example.com", 1)
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob("outcry.sqlite3*")}
    assert modes["outcry.sqlite3"] == 0o600
    assert set(modes.values()) == {0o600}


def test_one_that_was_readable_is_closed(tmp_path: Path) -> None:
    with open_installation(Settings(data=str(tmp_path))):
        pass
    (tmp_path / "outcry.sqlite3").chmod(0o644)
    with open_installation(Settings(data=str(tmp_path))):
        assert (tmp_path / "outcry.sqlite3").stat().st_mode & 0o777 == 0o600
