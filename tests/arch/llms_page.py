"""Generate the list of pages for language models: `python tests/arch/llms_page.py > docs/llms.txt`.

The form is that of https://llmstxt.org. The list follows the navigation in zensical.toml and links the Markdown
sources.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SOURCES = "https://raw.githubusercontent.com/outcry/outcry/main/docs/"


def site() -> dict[str, Any]:
    """Return the settings of the site."""
    return tomllib.loads((ROOT / "zensical.toml").read_text())["project"]


def pages(entries: list[Any]) -> Iterator[tuple[str, str]]:
    """Yield title and path of each page below a list of the navigation, depth first."""
    for entry in entries:
        for title, inner in entry.items():
            if isinstance(inner, str):
                yield title, inner
            else:
                yield from pages(inner)


def summary(path: Path) -> str:
    """Return the first sentence of a page, without markup."""
    text = re.sub(r"<!--.*?-->|^```.*?^```", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    for block in text.split("\n\n")[1:]:
        if block.strip() and not re.match(r"\s*(#|\||!|:::|<|\d\.|-|\W*Educational)", block):
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(block.split()))
            plain = re.sub(r"[*_]{1,2}(\S.*?\S)[*_]{1,2}", r"\1", plain)
            return re.split(r"(?<=\.)\s", plain, maxsplit=1)[0]
    return ""


def page() -> str:
    """Return the text of docs/llms.txt."""
    settings = site()
    lines = [f"# {settings['site_name']}", "", f"> {settings['site_description']}"]
    for section in settings["nav"]:
        ((name, inner),) = section.items()
        if isinstance(inner, str):
            continue
        lines += ["", f"## {name}", ""]
        for title, path in pages(inner):
            about = summary(ROOT / "docs" / path)
            lines.append(f"- [{title}]({SOURCES}{path})" + (f": {about}" if about else ""))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
