"""Remember which vault keys (for stored broker credentials) were checked, so that a start need not check them again.

A check decrypts a known value that the database stores for each key, which needs the encryption library. A file then
stores a hash of the key and that value. The hash reveals neither, and only the same key and value have it, so a later
start compares hashes. If the file is missing or damaged, the start repeats the check and writes the file again.
"""

from contextlib import suppress
from pathlib import Path

from outcry.connections.model import VaultKeyRow
from outcry.connections.vault import VaultKeys


class CheckedKeys:
    """The configured vault keys, and a file with the hashes of those that were checked before."""

    def __init__(self, path: Path, keys: VaultKeys) -> None:
        self._path, self._keys = path, keys
        self._checked: set[str] = set()
        self._stored: set[str] = set()
        with suppress(OSError, UnicodeDecodeError):
            self._stored = set(path.read_text(encoding="ascii").split())

    def recognises(self, row: VaultKeyRow) -> bool:
        """Return whether the configured key of this name is the same key that was used before."""
        known_hash = self._keys.hash_of(row)
        if known_hash not in self._stored and not self._keys.recognises(row):
            return False
        self._checked.add(known_hash)
        return True

    def save(self) -> None:
        """Write the file if the keys have changed. Without a writable folder, each start checks again."""
        if self._checked != self._stored:
            with suppress(OSError):
                self._path.touch(mode=0o600)
                self._path.write_text(
                    "".join(f"{one}\n" for one in sorted(self._checked)), encoding="ascii", newline="\n"
                )
