"""The wheel has compiled catalogues equal to the sources; a checkout reads the sources."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.wheel import unpack_wheel

ROOT = Path(__file__).parents[2]
PRINT_TRANSLATIONS = Path(__file__).with_name("print_translations.py")


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the files that a wheel of this checkout installs."""
    folder = tmp_path_factory.mktemp("wheel")
    assert unpack_wheel(folder, compiled=False).endswith("-py3-none-any.whl")
    return folder


def files(root: Path, pattern: str) -> set[Path]:
    return {path.relative_to(root) for path in root.rglob(pattern)}


def translations_of(source: Path, asked: dict[str, object]) -> tuple[str, dict[str, str]]:
    """Return where a program imports the package from, and its translations; `source`: the first import folder."""
    done = subprocess.run(
        [sys.executable, PRINT_TRANSLATIONS], input=json.dumps(asked), env=os.environ | {"PYTHONPATH": str(source)},
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    answer = json.loads(done.stdout)
    return answer["at"], answer["translations"]


def test_each_language_of_each_folder_is_compiled_and_no_source_is_shipped(unpacked: Path) -> None:
    folders = {path.parent for path in files(ROOT / "src", "*.po")}
    assert folders
    assert files(unpacked, "*.mo") == {folder / "LC_MESSAGES" / "outcry.mo" for folder in folders}
    assert files(unpacked, "*.po") == set()


def test_a_checkout_holds_nothing_compiled() -> None:
    """Without compiled catalogues, none can be out of date."""
    assert files(ROOT / "src", "*.mo") == set()


def test_the_wheel_says_in_each_language_what_the_checkout_says(unpacked: Path) -> None:
    from babel.messages.pofile import read_po

    texts, counted, codes = set[str](), set[tuple[str, str]](), set[str]()
    for path in (ROOT / "src").rglob("de/*.po"):
        with path.open("rb") as file:
            for message in read_po(file, locale="de"):
                if path.name == "messages.po":
                    codes.add(str(message.id))
                elif isinstance(message.id, str):
                    texts.add(message.id)
                else:
                    counted.add((message.id[0], message.id[1]))
    asked: dict[str, object] = {
        "texts": sorted(texts - {""}), "counted": sorted(counted), "codes": sorted(codes - {""}),
    }  # fmt: skip
    (at_wheel, of_wheel), (at_checkout, of_checkout) = (
        translations_of(unpacked, asked),
        translations_of(ROOT / "src", asked),
    )
    assert (Path(at_wheel).parents[1], Path(at_checkout).parents[1]) == (unpacked, ROOT / "src")
    assert of_wheel == of_checkout
    assert sum(name != text for name, text in of_wheel.items()) > 1000


def test_a_build_needs_nothing_but_setuptools_and_babel() -> None:
    """An isolated build has no other packages to import."""
    (module,) = re.findall(r"^from (outcry\S*) import", (ROOT / "setup.py").read_text(), re.MULTILINE)
    script = f"""
import importlib, sys
sys.path.insert(0, "src")
importlib.import_module("{module}")
print(" ".join({{name.partition(".")[0] for name in sys.modules}} - sys.stdlib_module_names))
"""
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert {name for name in done.stdout.split() if not name.startswith("_")} <= {"outcry", "babel", "pytz"}
