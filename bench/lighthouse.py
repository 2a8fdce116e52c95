"""Lighthouse over the pages of the demo: `python -m bench.lighthouse`, run manually before a release.

It needs Node and downloads the version named here through npx. Neither the program nor its tests use it. It prints the
four categories of each page, 0 to 1.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.measurement import Unavailable
from bench.paint import PUBLIC, chromium, demonstration

LIGHTHOUSE = "lighthouse@12.8.2"
CATEGORIES = ("performance", "accessibility", "best-practices", "seo")
LEAST = 0.95


def scores(npx: str, address: str, folder: Path) -> dict[str, float]:
    """Return the categories of one page with Lighthouse's desktop preset."""
    report = folder / "report.json"
    done = subprocess.run(
        [npx, "--yes", LIGHTHOUSE, address, "--quiet", "--preset=desktop", "--output=json", f"--output-path={report}",
         f"--only-categories={','.join(CATEGORIES)}", "--chrome-flags=--headless=new --no-sandbox"],
        env={**os.environ, "CHROME_PATH": chromium()}, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    if done.returncode:
        raise Unavailable(f"{address}: {done.stderr.strip()[-400:]}")
    found = json.loads(report.read_text())
    for category in CATEGORIES:
        for audit in found["categories"][category]["auditRefs"]:
            result = found["audits"][audit["id"]]
            if audit["weight"] and result["score"] is not None and result["score"] < 0.9:
                print(f"    {category}: {result['title']} {result.get('displayValue', '')}".rstrip())
    return {name: float(found["categories"][name]["score"]) for name in CATEGORIES}


def main() -> int:
    """Print a line for each page; the exit status is 1 if one is below its target."""
    npx = shutil.which("npx")
    if npx is None:
        print("no npx: Lighthouse needs Node", file=sys.stderr)
        return 2
    low = False
    with demonstration() as (base, _), tempfile.TemporaryDirectory() as name:
        for path in sys.argv[1:] or PUBLIC:
            found = scores(npx, base + path, Path(name))
            low = low or min(found.values()) < LEAST
            print(
                f"{path:<24} " + "  ".join(f"{each} {score:.2f}" for each, score in found.items()), flush=True
            )
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
