"""A package index can show the project: metadata is complete, and the README works outside the repository."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.metadata import Metadata

ROOT = Path(__file__).parents[2]
REPOSITORY = "https://github.com/outcry/outcry"
#: URLs of the repository's files and folders on GitHub: pages, and raw files for images.
FILE = re.compile(
    rf"{REPOSITORY}/(?:blob|tree)/main/([^)#\s]+)|https://raw\.githubusercontent\.com/outcry/outcry/main/([^)#\s]+)"
)
TARGET = re.compile(r"\]\(([^)\s]+)|^\[[^\]]+\]:\s*(\S+)|(?:src|href)=[\"']([^\"']+)", re.MULTILINE)
BUILD = "import sys; from setuptools import build_meta; print(build_meta.prepare_metadata_for_build_wheel(sys.argv[1]))"


def targets(text: str) -> list[str]:
    """Return the targets of all links and images of a Markdown page, outside code blocks."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return ["".join(found) for found in TARGET.findall(prose)]


@pytest.fixture(scope="module")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> Metadata:
    """Build the metadata as a package index receives it, in a copy without the sources."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, folder)
    (folder / "src" / "outcry").mkdir(parents=True)
    (folder / "src" / "outcry" / "__init__.py").touch()
    call = [sys.executable, "-c", BUILD, str(folder)]
    done = subprocess.run(call, cwd=folder, capture_output=True, text=True, timeout=120, check=True)
    built = folder / done.stdout.splitlines()[-1] / "METADATA"
    return Metadata.from_email(built.read_bytes(), validate=True)


def test_authors_urls_keywords_and_classifiers_are_named(metadata: Metadata) -> None:
    assert metadata.author == "The Outcry authors"
    assert metadata.license_expression == "Apache-2.0"
    assert {"Homepage", "Documentation", "Repository", "Issues", "Changelog"} == set(
        metadata.project_urls or {}
    )
    assert all(url.startswith(REPOSITORY) for url in (metadata.project_urls or {}).values())
    assert "market profile" in (metadata.keywords or [])
    assert "Typing :: Typed" in (metadata.classifiers or [])
    assert len(metadata.summary or "") <= 120


def test_the_readme_of_the_metadata_has_no_relative_link_or_image(metadata: Metadata) -> None:
    assert metadata.description_content_type == "text/markdown"
    found = targets(metadata.description or "")
    assert len(found) > 20
    assert [target for target in found if not target.startswith("https://")] == []


def test_links_of_the_readme_to_the_repository_name_files_that_exist() -> None:
    named = ["".join(found) for found in FILE.findall((ROOT / "README.md").read_text())]
    assert len(named) > 20
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_readme_begins_with_a_picture() -> None:
    blocks = (ROOT / "README.md").read_text().split("\n\n")
    assert blocks[2].startswith("![")  # after the title and one paragraph


@pytest.mark.parametrize(
    "line",
    ["![A](docs/a.png)", "[a](docs/a.md#b)", "[a]: docs/a.md", '<img src="docs/a.png">', "[a](#start)"],
)
def test_a_relative_target_is_found(line: str) -> None:
    (target,) = targets(f"# A\n\n```\n[no](no.md)\n```\n\n{line}\n")
    assert not target.startswith("https://")
