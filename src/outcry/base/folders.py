"""Default folders of data and configuration, where each operating system stores them.

Linux: `~/.local/share/outcry` and `~/.config/outcry`. macOS: `~/Library/Application Support/outcry`. Windows:
`outcry` in `%LOCALAPPDATA%`. `XDG_DATA_HOME` and `XDG_CONFIG_HOME` override them on every system. Earlier versions used
Linux's folders on every system, so a folder that exists there stays in use.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from platformdirs import user_config_path, user_data_path

_NAME = "outcry"


def default_data_folder(environment: Mapping[str, str]) -> Path:
    """Return the default data folder of this user."""
    return _folder(environment.get("XDG_DATA_HOME"), Path(".local", "share"), user_data_path)


def default_configuration_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of this user's configuration files."""
    return _folder(environment.get("XDG_CONFIG_HOME"), Path(".config"), user_config_path)


def _folder(named: str | None, earlier: Path, of_system: Callable[..., Path]) -> Path:
    if named:
        return Path(named) / _NAME
    before = Path.home() / earlier / _NAME
    return before if before.is_dir() else of_system(_NAME, appauthor=False)
