"""`outcry migrate`: upgrade the database to the schema of this version."""

import sys

from outcry.app.installation import open_installation
from outcry.app.settings import read_settings
from outcry.database.migrate import current
from outcry.recordings.verification import add_digests


def migrate_database(*, data: str | None = None) -> int:
    """Upgrade the database to the schema of this version. `outcry serve` also does this at its start.

    Tape files and rows of earlier versions are verified and get digests and checksums. Damaged tape files are listed on
    standard error, and the exit status is 1.

    Parameters
    ----------
    data
        Data folder. Default: OUTCRY_DATA.
    """
    with open_installation(read_settings(data=data)) as installation:
        print(f"Database is at migration {current(installation.engine)}.")
        rows = installation.store.add_checksums()
        faults = list(add_digests(installation.store, installation.tape))
    if rows:
        print(f"Added checksums to {rows} rows.")
    for fault in faults:
        print(f"outcry: {fault}", file=sys.stderr)
    return 1 if faults else 0
