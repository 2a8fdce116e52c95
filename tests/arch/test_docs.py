"""The documents match the program: generated pages are current, links work, and nothing is missing."""

import ast
import os
import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import msgspec
import pytest
from tests.arch.alerts_page import page as alerts_page
from tests.arch.connections_page import page as connections_page
from tests.arch.settings_page import commands, meanings, page

from outcry.app.settings import BadSettings, Settings, read_settings
from outcry.market.methods import PRESETS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
DECISIONS = sorted((DOCS / "decisions").glob("[0-9]*.md"))
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])

#: Absolute paths of a single machine, which no file of the project may contain.
MACHINE = re.compile(
    r"(?<![\w.~$}>/-])/(?:mnt|work|workspace|builds|root|home/[a-z]\w*|Users/[A-Za-z]\w*|tmp/\w+)/"
)
ANCHOR = re.compile(r"\]\(([^)#\s]*)#([^)\s]+)\)")
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")
#: Files of the repository, which pages outside `docs/` and the README link by URL.
REPOSITORY_LINK = re.compile(
    r"\]\(https://github\.com/outcry/outcry/(?:blob|tree)/main/([^)#\s]+)(#[^)\s]*)?\)"
)


def tracked() -> list[Path]:
    """Return every file in the project's folder that .gitignore does not exclude."""
    ignored = [".git/", *(ROOT / ".gitignore").read_text().split()]
    found: list[Path] = []
    for folder, inner, names in os.walk(ROOT):
        top = "/" if Path(folder) == ROOT else ""
        for listed, end in ((inner, "/"), (names, "")):
            listed[:] = [
                name
                for name in listed
                if not any(fnmatch(each + end, line) for each in (name, top + name) for line in ignored)
            ]
        found += [Path(folder, name) for name in names]
    return found


def test_the_page_on_connections_is_what_the_program_does() -> None:
    assert (DOCS / "reference" / "connections.md").read_text() == connections_page(), (
        "python -m tests.arch.connections_page > docs/reference/connections.md"
    )


def test_the_page_on_settings_is_what_the_program_says() -> None:
    assert (DOCS / "reference" / "settings.md").read_text() == page(), (
        "python tests/arch/settings_page.py > docs/reference/settings.md"
    )


def test_the_page_on_alerts_is_what_the_tables_say() -> None:
    assert (DOCS / "reference" / "alerts.md").read_text() == alerts_page(), (
        "python -m tests.arch.alerts_page > docs/reference/alerts.md"
    )


def test_every_setting_has_a_meaning() -> None:
    assert set(meanings()) == {field.name for field in msgspec.structs.fields(Settings)}
    assert all(meanings().values())


def test_the_example_of_a_settings_file_is_one(tmp_path: Path) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", page(), re.DOTALL)
    (tmp_path / "outcry.toml").write_text(example)
    read = read_settings({"OUTCRY_DATA": str(tmp_path), "OUTCRY_PORT": "9000"})
    assert (read.host, read.session_variants, read.query_timeout_s) == (
        "0.0.0.0",
        {"ES": "cash", "NQ": "cash"},
        5,
    )
    assert read.port == 9000  # the environment overrides the file
    # The command line overrides both.
    assert read_settings({"OUTCRY_DATA": str(tmp_path)}, port=7000).port == 7000
    assert (
        read_settings({"OUTCRY_SESSION_VARIANTS": "ES=cash,NQ=cash"}).session_variants
        == read.session_variants
    )


@pytest.mark.parametrize(
    ("environment", "file", "named"),
    [
        ({"OUTCRY_PROT": "1"}, "", "OUTCRY_PROT"),
        ({"OUTCRY_PORT": "eighty"}, "", "port"),
        ({}, "prot = 1", "prot"),
        ({}, "port = 'eighty'", "port"),
        ({"OUTCRY_PRIVATE_HOSTS": "sink.lan:8443,https://sink"}, "", "private_hosts: 'https://sink'"),
        ({"OUTCRY_PRIVATE_CA": "/nowhere.pem"}, "", "private_ca: /nowhere.pem"),
        ({}, "private_ca = '/dev/null'", "private_ca: /dev/null"),
        ({"OUTCRY_EGRESS_DENIED": "10.0.0.1/8"}, "", "egress_denied: 10.0.0.1/8"),
    ],
)
def test_a_misspelt_setting_is_refused_by_name(
    tmp_path: Path, environment: dict[str, str], file: str, named: str
) -> None:
    (tmp_path / "outcry.toml").write_text(file)
    with pytest.raises(BadSettings, match=named):
        read_settings({"OUTCRY_DATA": str(tmp_path), **environment})


def test_every_command_is_documented() -> None:
    text = "\n".join(path.read_text() for path in PAGES)
    missing = [name for name, _ in commands() if not re.search(rf"{name}\b", text)]
    assert missing == []
    assert {"outcry serve", "outcry import", "outcry keys create", "outcry grants add"} <= {
        n for n, _ in commands()
    }


def test_every_command_named_in_the_documents_exists() -> None:
    """Read the commands in code blocks and inline code: text that begins with `outcry`."""
    known = {name for name, _ in commands()}
    groups = {name.rpartition(" ")[0] for name in known}  # `outcry keys`
    named: dict[str, Path] = {}
    for path in PAGES:
        for words in re.findall(
            r"(?:^|`|\$\()(outcry(?: [a-z]+){1,2})(?=[ `\n)]|$)", path.read_text(), re.MULTILINE
        ):
            named[words] = path
    wrong = {
        words: path.name
        for words, path in named.items()
        if words not in known | groups
        and words.rpartition(" ")[0] not in known  # a word after a command is an argument
    }
    assert wrong == {}


def test_the_table_of_presets_is_that_of_the_program() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \|(.*)\|$", (DOCS / "explanation" / "levels.md").read_text(), re.MULTILINE
    )
    found = {name: [cell.strip() for cell in cells.split("|")][:8] for name, cells in rows if name in PRESETS}
    assert found == {
        m.name: [
            m.basis, f"{m.percent} %", str(m.step), m.pair, m.side_tie, m.stop, m.poc_tie, f"{m.rows}, {m.placement}",
        ]
        for m in PRESETS.values()
    }  # fmt: skip


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_between_documents_lead_somewhere(path: Path) -> None:
    targets = [target for target, _ in LINK.findall(path.read_text()) if "://" not in target]
    missing = [target for target in targets if not (path.parent / target).exists()]
    assert missing == []
    files = [name for name, _ in REPOSITORY_LINK.findall(path.read_text())]
    assert [name for name in files if not (ROOT / name).exists()] == []
    if path.is_relative_to(DOCS):  # the site has only the pages of docs/
        outside = [target for target in targets if not (path.parent / target).resolve().is_relative_to(DOCS)]
        assert outside == [], "link to the file on GitHub"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_to_a_heading_name_one(path: Path) -> None:
    anchors = [(target, name) for target, name in ANCHOR.findall(path.read_text()) if "://" not in target]
    missing = [
        each for each in anchors if each[1] not in headings(path.parent / each[0] if each[0] else path)
    ]
    assert missing == []


def test_every_path_named_in_the_recipes_exists() -> None:
    """Check paths in backticks.

    A path with `<…>` names a file to create: its folder exists, up to the first such part.
    """
    named = re.findall(
        r"`((?:src|tests|docs|deploy|requirements)/[^`\s]*)`", (ROOT / "CONTRIBUTING.md").read_text()
    )
    missing = [name for name in named if not (ROOT / name.partition("<")[0].rpartition("/")[0]).exists()]
    missing += [name for name in named if "<" not in name and not (ROOT / name).exists()]
    assert len(named) > 50
    assert missing == []


def headings(path: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    prose = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    found: list[str] = []
    for title in re.findall(r"^#+ (.*)$", prose, re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
        anchor = re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-")
        found.append(f"{anchor}-{found.count(anchor)}" if anchor in found else anchor)
    return set(found)


# -- decision records


def test_each_decision_has_a_number_of_its_own() -> None:
    numbers = [path.name[:4] for path in DECISIONS]
    assert all(number.isdecimal() for number in numbers)
    assert len(set(numbers)) == len(numbers)
    assert len(DECISIONS) >= 10


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem)
def test_a_decision_has_its_parts_and_names_what_enforces_it(path: Path) -> None:
    text = path.read_text()
    assert text.startswith(f"# {path.name[:4]} ")
    places = [
        text.find(f"\n{part}") for part in ("Status: ", "## Context\n", "## Decision\n", "## Consequences\n")
    ]
    assert -1 not in places
    assert places == sorted(places)
    (enforced,) = re.findall(r"^Enforced by: (.+(?:\n.+)*)", text, re.MULTILINE)
    named = re.findall(r"`((?:tests|src)/[^`]+|pyproject\.toml[^`]*)`", enforced)
    assert named, "name the tests or the rules"
    for name in named:
        file, _, test = name.partition("::")
        file = file.split(" ")[0]
        assert (ROOT / file).exists(), name
        if test:
            tree = ast.parse((ROOT / file).read_text())
            assert test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, name


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem)
def test_a_decision_fits_on_a_page(path: Path) -> None:
    prose = path.read_text().partition("\nEnforced by:")[0]
    lines = [line for line in prose.splitlines() if not line.startswith("|")]
    assert len(" ".join(lines).split()) <= 500


def test_every_dependency_has_its_line_in_the_record() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [
        *project["dependencies"],
        *(one for extra in project["optional-dependencies"].values() for one in extra),
    ]
    names = {re.split(r"[<>=;\[ ]", line, maxsplit=1)[0].lower() for line in wanted} - {project["name"]}
    text = (DOCS / "decisions" / "0006-dependencies.md").read_text()
    assert names == set(re.findall(r"^\| `([\w-]+)` \|", text, re.MULTILINE))


# -- text that no file may contain


def test_no_file_names_a_folder_of_one_machine() -> None:
    found: list[str] = []
    for path in tracked():
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        if path != Path(__file__):
            found += [
                f"{path.relative_to(ROOT)}:{n}" for n, line in enumerate(lines, 1) if MACHINE.search(line)
            ]
    assert found == []


@pytest.mark.parametrize(
    "line", ["see /mnt/disk/x", "'/home/ann/x'", "cd /Users/ann/src", "/root/.cache/", "in /tmp/a/b"]
)
def test_a_folder_of_one_machine_is_seen(line: str) -> None:
    assert MACHINE.search(line)


@pytest.mark.parametrize(
    "line", ["https://x.org/home/a/b", "~/src/", "$HOME/root/x", "../shared/data", "/api/levels"]
)
def test_other_paths_are_not(line: str) -> None:
    assert not MACHINE.search(line)
