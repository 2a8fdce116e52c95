"""Fetch the third-party files of the pages, and compare them with the checksums in `static/vendor.toml`.

    python tools/vendor.py           fetch every package with npm, check it, write its files
    python tools/vendor.py --check   only compare the present files

To update a package:

1. Change its `version`, `integrity` (`npm view NAME@VERSION dist.integrity`) and `folder`.
2. Change the folder's name in `css/fonts.css` or `js/chart`, and delete the old folder.
3. Run this tool, review the changed files, and enter the checksums that it reports.
"""

import base64
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path
from typing import Any

STATIC = Path(__file__).parents[1] / "src/outcry/web/static"


def packages() -> list[dict[str, Any]]:
    """Return the packages of the manifest."""
    return tomllib.loads((STATIC / "vendor.toml").read_text())["package"]


def faults() -> list[str]:
    """Return one line for each file in `static/vendor` that is changed, missing, or not in the manifest."""
    found: list[str] = []
    expected: set[Path] = set()
    for package in packages():
        for file in package["file"]:
            path = STATIC / "vendor" / package["folder"] / file["to"]
            expected.add(path)
            if not path.is_file():
                found.append(f"{path.relative_to(STATIC)} is missing")
            elif hashlib.sha256(path.read_bytes()).hexdigest() != file["sha256"]:
                found.append(
                    f"{path.relative_to(STATIC)} is not the file of {package['name']} {package['version']}"
                )
    present = {path for path in (STATIC / "vendor").rglob("*") if path.is_file()}
    found += [f"{path.relative_to(STATIC)} is in no package" for path in sorted(present - expected)]
    return found


def fetch(package: dict[str, Any]) -> None:
    """Download a package and write its files. Raises `SystemExit` if its checksum differs from the manifest."""
    npm = shutil.which("npm") or sys.exit("npm is needed to fetch packages (npm pack)")
    with tempfile.TemporaryDirectory() as folder:
        wanted = f"{package['name']}@{package['version']}"
        command = [npm, "pack", "--silent", "--pack-destination", folder, wanted]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - the manifest names the package
        archive = next(Path(folder).glob("*.tgz"))
        digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if f"sha512-{digest}" != package["integrity"]:
            sys.exit(f"{wanted} is sha512-{digest}, not {package['integrity']}")
        with tarfile.open(archive) as tar:
            for file in package["file"]:
                member = tar.extractfile(f"package/{file['from']}")
                if member is None:
                    sys.exit(f"{wanted} has no {file['from']}")
                target = STATIC / "vendor" / package["folder"] / file["to"]
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(member.read())


def main() -> None:
    """Fetch all packages, unless `--check` is given, then report differences."""
    if "--check" not in sys.argv[1:]:
        for package in packages():
            fetch(package)
    wrong = faults()
    sys.exit("\n".join(wrong) if wrong else 0)


if __name__ == "__main__":
    main()
