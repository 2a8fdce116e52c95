"""The first person: a one-time token for whoever runs the service, on the console and in a file only its owner reads.

Rule kept: while there is no operator every start makes a new token and the one before no longer counts; once there is
one the file goes.
"""

import os
from pathlib import Path

from outcry.wiring import House

TOKEN_FILE = "setup-token"  # noqa: S105 - a file's name


def set_up_notice(house: House, at: str) -> str:
    """What to tell whoever starts a service nobody looks after yet; empty once somebody does. `at`: its address."""
    path = house.settings.folder / TOKEN_FILE
    identity = house.people.identity
    if not identity.needs_set_up():
        path.unlink(missing_ok=True)
        return ""
    token = identity.set_up_token()
    _write(path, token)
    identity.after_set_up(lambda: path.unlink(missing_ok=True))
    return f"No account yet: make yours at {at}/set-up with the token\n{token}\n(also in {path})\n"


def _write(path: Path, token: str) -> None:
    path.unlink(missing_ok=True)  # so that the new one is made with these rights and no others
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(token + "\n")
