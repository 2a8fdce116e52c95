"""Vendored files are unchanged, have their licence beside them, and are named in NOTICE."""

import shutil
from pathlib import Path

import pytest
from tools import vendor


def test_every_file_is_the_one_the_manifest_names() -> None:
    assert vendor.faults() == []


def test_every_package_brings_its_licence_and_is_named_in_notice() -> None:
    notice = (Path(__file__).parents[2] / "NOTICE").read_text()
    for package, line in zip(
        vendor.packages(), ("Lightweight Charts", "IBM Plex Sans", "Geist Mono"), strict=True
    ):
        licence = (vendor.STATIC / "vendor" / package["folder"] / "LICENSE").read_text()
        name = {"Apache-2.0": "Apache License", "OFL-1.1": "SIL Open Font License"}[package["licence"]]
        assert name.casefold() in licence.casefold()
        assert line in notice
        assert package["folder"].endswith(package["version"])


@pytest.mark.parametrize("harm", ["changed", "missing", "added"])
def test_a_file_that_is_not_as_published_is_noticed(
    harm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(vendor.STATIC / "vendor", tmp_path / "vendor")
    shutil.copy(vendor.STATIC / "vendor.toml", tmp_path)
    monkeypatch.setattr(vendor, "STATIC", tmp_path)
    victim = tmp_path / "vendor/geist-mono-5.3.0/latin.woff2"
    if harm == "changed":
        victim.write_bytes(victim.read_bytes() + b"\0")
    elif harm == "missing":
        victim.unlink()
    else:
        victim.with_name("more.js").write_text("")
    [fault] = vendor.faults()
    assert ("more.js" if harm == "added" else "latin.woff2") in fault
