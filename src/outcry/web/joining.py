"""Joins scripts and styles, so that a page loads few files without a build step.

A script `chart.js` and the modules of the folder `chart/` that it needs are served as one file. Other scripts import
`chart.js` only. Modules become functions that return their exports. Each line of an import or export is replaced by one
line, and everything else stays as it is. The joiner is not a JavaScript parser. It accepts the forms of imports and
exports that our modules use, each at the start of a line, and raises `CannotJoin` for others. A style sheet is joined
with those that it imports.
"""

import re
from collections.abc import Iterator, Mapping
from posixpath import dirname, join, normpath

_IMPORT = re.compile(r'^import (?:(\{[^{}]*\}) from )?"([^"\n]+)";$', re.MULTILINE)
_PASSED_ON = re.compile(r'^export (\{[^{}]*\}) from "([^"\n]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?function|class|const) (\w+)", re.MULTILINE)
_OTHER = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)
_LATER = re.compile(r'\bimport\("([^"\n]+)"\)')
_AS = re.compile(r"\bas\b")
_STYLE = re.compile(r'^@import "([^"\n]+)";$', re.MULTILINE)


class CannotJoin(Exception):
    """A file cannot be joined with others. The message names the file and the reason."""


def joined_scripts(scripts: Mapping[str, str]) -> dict[str, str]:
    """Return the scripts that pages load, by path: the scripts of the top folder, each joined with its modules.

    scripts: all scripts and modules by path below the top folder, such as `chart.js` and `chart/model.js`. Raises
    `CannotJoin`.
    """
    return {name: _Joining(name, scripts).text() for name in scripts if "/" not in name}


def joined_styles(styles: Mapping[str, str]) -> dict[str, str]:
    """Return style sheets by path, each joined with those of its folder that it imports. Raises `CannotJoin`."""

    def content(match: re.Match[str]) -> str:
        if match[1] not in styles:
            raise CannotJoin(f"cannot import {match[1]!r}: no style of this folder")
        return styles[match[1]]

    return {name: _STYLE.sub(content, text) for name, text in styles.items()}


class _Joining:
    """One script while it is joined.

    In the result its modules, and the scripts that it imports, are properties of the object `$`.
    """

    def __init__(self, name: str, scripts: Mapping[str, str]) -> None:
        self._name, self._scripts = name, scripts
        self._folder = name.removesuffix(".js") + "/"
        self._outside: list[str] = []
        self._open: list[str] = []
        self._done: list[str] = []

    def text(self) -> str:
        """Return the joined script: imports of other scripts, then its modules, then its own text.

        A module comes before those that need it.
        """
        parts = list(self._needed(self._name))
        if len(parts) == 1:
            return self._scripts[self._name]
        imports = [f'import * as ${at} from "./{path}";' for at, path in enumerate(self._outside)]
        known = ", ".join(f'"{path}": ${at}' for at, path in enumerate(self._outside))
        return "\n".join((*imports, f"const $ = {{{known}}};", *parts))

    def _needed(self, path: str) -> Iterator[str]:
        """Yield the text of a module, after the texts of the modules that it needs."""
        if path in self._open:
            raise CannotJoin(f"modules import each other: {', '.join(self._open)}")
        if path in self._done:
            return
        self._open.append(path)
        for target in self._imports(path):
            if target.startswith(self._folder):
                yield from self._needed(target)
            elif target not in self._outside:
                self._outside.append(target)
        self._open.remove(path)
        self._done.append(path)
        yield self._replaced(path)

    def _imports(self, path: str) -> list[str]:
        text = self._scripts[path]
        found = [_resolved(path, match[2]) for form in (_IMPORT, _PASSED_ON) for match in form.finditer(text)]
        found_later = [_resolved(path, match[1]) for match in _LATER.finditer(text)]
        modules = {target for target in found if target.startswith(self._folder)}
        for target in {*found, *found_later} - modules:
            if "/" in target and not target.startswith("../"):
                raise CannotJoin(f"{path}: cannot import {target}, a module of another script")
        for target in (*found, *found_later):
            if not target.startswith("../") and target not in self._scripts:
                raise CannotJoin(f"{path}: cannot import {target}: no such file")
        rest = _OTHER.search(_IMPORT.sub("", _PASSED_ON.sub("", _EXPORT.sub("", text))))
        if rest:
            raise CannotJoin(f"{path}: cannot join {rest[0]!r}")
        return found

    def _replaced(self, path: str) -> str:
        """Return the text of a module as a function that returns its exports.

        The script itself is not made a function.
        """

        def constants(match: re.Match[str]) -> str:
            names, target = match[1], _resolved(path, match[2])
            return f'const {_AS.sub(":", names)} = $["{target}"];' if names else ""

        text = _IMPORT.sub(constants, self._scripts[path])
        text = _LATER.sub(lambda match: f'import("./{_resolved(path, match[1])}")', text)
        if path == self._name:
            return f"// {path}\n{_PASSED_ON.sub(lambda match: f'export {constants(match)}', text)}"
        names = ", ".join(match[2] for match in _EXPORT.finditer(text))
        text = _EXPORT.sub(r"\1 \2", text)
        return f'// {path}\n$["{path}"] = (() => {{\n{text}\nreturn {{ {names} }};\n}})();'


def _resolved(path: str, name: str) -> str:
    """Return the path of the script that the script at `path` imports by the relative name `name`."""
    if not name.startswith("."):
        raise CannotJoin(f"{path}: {name!r} is not a relative path")
    return normpath(join(dirname(path), name))
