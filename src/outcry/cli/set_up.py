"""The one-time token that creates the first operator account.

The token is printed on the console and written to a file that only its owner can read. Until an operator exists, every
start creates a new token and invalidates the previous one. The file is deleted once an operator exists.
"""

from pathlib import Path

from outcry.base.portable_files import write_private
from outcry.people.first_run import FirstRun

TOKEN_FILE = "setup-token"  # noqa: S105 - a file's name


def set_up_notice(folder: Path, first_run: FirstRun, at: str) -> str:
    """Return the set-up instructions for a service without an operator, or an empty string. at: URL of the service."""
    path = folder / TOKEN_FILE
    if not first_run.is_pending():
        path.unlink(missing_ok=True)
        return ""
    token = first_run.new_token()
    _write(path, token)
    first_run.afterwards = lambda: path.unlink(missing_ok=True)
    return (
        f"No operator account yet. Create one at {at}/set-up with this token:\n{token}\n"
        f"(The token is also in {path}.)\n"
    )


def _write(path: Path, token: str) -> None:
    path.unlink(missing_ok=True)  # an existing file would keep its own permissions
    write_private(path, token + "\n")
