"""Default folders by system; a folder of an earlier version stays in use."""

from pathlib import Path

import pytest
from platformdirs.macos import MacOS
from platformdirs.unix import Unix
from platformdirs.windows import Windows

from outcry.base import folders
from outcry.base.folders import default_configuration_folder, default_data_folder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    return tmp_path


def on(monkeypatch: pytest.MonkeyPatch, system: type) -> None:
    monkeypatch.setattr(folders, "user_data_path", lambda *a, **k: Path(system(*a, **k).user_data_dir))
    monkeypatch.setattr(folders, "user_config_path", lambda *a, **k: Path(system(*a, **k).user_config_dir))


def test_linux(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, Unix)
    assert default_data_folder({}) == home / ".local" / "share" / "outcry"
    assert default_configuration_folder({}) == home / ".config" / "outcry"


def test_macos(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, MacOS)
    place = home / "Library" / "Application Support" / "outcry"
    assert (default_data_folder({}), default_configuration_folder({})) == (place, place)


def test_windows(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platformdirs.windows.get_win_folder", lambda name: f"{home}/{name}")
    on(monkeypatch, Windows)
    place = home / "CSIDL_LOCAL_APPDATA" / "outcry"
    assert (default_data_folder({}), default_configuration_folder({})) == (place, place)


@pytest.mark.parametrize("system", [Unix, MacOS])
def test_the_folder_of_an_earlier_version_stays_in_use(
    home: Path, monkeypatch: pytest.MonkeyPatch, system: type
) -> None:
    on(monkeypatch, system)
    for earlier, found in ((".local/share", default_data_folder), (".config", default_configuration_folder)):
        (home / earlier / "outcry").mkdir(parents=True)
        assert found({}) == home / earlier / "outcry"


def test_variables_override_the_folders(home: Path) -> None:
    (home / ".local/share/outcry").mkdir(parents=True)
    variables = {"XDG_DATA_HOME": str(home / "d"), "XDG_CONFIG_HOME": str(home / "c")}
    assert default_data_folder(variables) == home / "d" / "outcry"
    assert default_configuration_folder(variables) == home / "c" / "outcry"
