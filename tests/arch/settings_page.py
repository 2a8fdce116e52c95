"""The page about settings and commands, made from both: `python tests/arch/settings_page.py > docs/settings.md`.

Rule kept: the page in the repository is what this returns; a test compares them.
"""

import re
import sys
from collections.abc import Iterator
from typing import Annotated, get_args, get_origin

import msgspec
from cyclopts import App

from outcry.cli import app
from outcry.settings import Settings

_HEAD = """# Settings and commands

<!-- Made by `python tests/arch/settings_page.py`; a test compares them. -->

## Settings

A setting is read from the command line where there is an option for it, else from its variable, else from the TOML
file, else it has its default. All are read once, at the start. A name that is none of these, in the environment or in
the file, is refused with the names there are, and a value of the wrong kind with its name: a misspelt setting never
goes unnoticed.

The file is `outcry.toml` in the data folder, or the one that `OUTCRY_CONFIG` names, which must then exist. With a
secret in it, or an address with a password, it has to be its owner's alone: one that others can read or change is
refused, and `chmod 600` mends it.

| in the environment | in TOML | kind | default | meaning |
|---|---|---|---|---|
"""
_BETWEEN = """
The data folder is `$XDG_DATA_HOME/outcry` unless set, or `~/.local/share/outcry` where that variable is not set
either; of a demonstration it is `outcry-demo` beside that. It holds `outcry.sqlite3` (accounts, grants, sessions,
alerts, connections), `tape/` (market data), `live/` (the log of [live feeds](live.md)), `secret.key`, `vault.key`, and
what you put there: `outcry.toml` and `overrides.csv` ([products, sessions and holidays](sessions.md)). `outcry backup`
copies all of it.

An example of a file:

```toml
host = "0.0.0.0"
port = 8080
trusted_proxies = "10.0.0.2"
query_timeout_s = 5

[session_variants]
ES = "cash"
NQ = "cash"
```

The same table in the environment: `OUTCRY_SESSION_VARIANTS=ES=cash,NQ=cash`. A session keeps the hours it was
imported with until `outcry refold` computes it anew.

Three variables are of commands, not of the service: `OUTCRY_URL` (where it runs) and `OUTCRY_KEY` (the key) of
those that use one, and `OUTCRY_DATABENTO_KEY` of `outcry fetch`. Without `OUTCRY_URL` they find the service that
runs on the same data folder, whatever its port: while it answers, the file `address` there says where.

Whoever changes `secret`, or loses `secret.key`, makes every key that was issued unrecognisable, and what is kept sealed
(second factors, webhook addresses) unreadable. Where there are people the service refuses to start without the file,
rather than make a new one; it says what can be done.

What people enter for their broker connections is sealed in [a vault](vault.md), whose key is in `vault.key` or in
`vault_keys`, never in the database. Without the right key the service refuses to start.

## Commands

`outcry COMMAND --help` tells the rest. Standard output is for pipes: lines separated by tabs, a key, or JSON;
everything else goes to standard error. Exit status 0: done; 1: it was not, or not all of it; 2: the question cannot be
read.

| command | what it does |
|---|---|
"""


def meanings() -> dict[str, str]:
    """What the docstring of `Settings` says of each name; several names may share a sentence."""
    text = " ".join((Settings.__doc__ or "").split("\n\n", 1)[1].split())
    parts = re.split(r"(?:^|(?<=\. ))((?:[a-z_]+, )*[a-z_]+): ", text)[1:]
    found: dict[str, str] = {}
    for names, said in zip(parts[::2], parts[1::2], strict=True):
        found |= dict.fromkeys(names.split(", "), said.strip().removesuffix("."))
    return found


def settings_rows() -> Iterator[str]:
    """A row of the table for each setting."""
    said = meanings()
    for field in msgspec.structs.fields(Settings):
        default = {} if field.default_factory is not msgspec.NODEFAULT else field.default
        plain = get_args(field.type)[0] if get_origin(field.type) is Annotated else field.type
        kind = {"bool": "true or false", "str": "text", "int": "whole number", "float": "number"}.get(
            getattr(plain, "__name__", ""), "table"
        )
        shown = "" if default in ("", {}) else f"`{str(default).lower()}`"
        yield f"| `OUTCRY_{field.name.upper()}` | `{field.name}` | {kind} | {shown} | {said[field.name]} |\n"


def commands(of: App = app, prefix: str = "outcry") -> Iterator[tuple[str, str]]:
    """Every command with the first sentence of its help, groups opened up."""
    for name, command in of.resolved_commands().items():
        if name.startswith("-"):
            continue
        if any(not inner.startswith("-") for inner in command.resolved_commands()):
            yield from commands(command, f"{prefix} {name}")
        else:
            yield f"{prefix} {name}", " ".join(str(command.help).split("\n\n", maxsplit=1)[0].split())


def page() -> str:
    """Return the page."""
    rows = "".join(f"| `{name}` | {said} |\n" for name, said in sorted(commands()))
    return _HEAD + "".join(settings_rows()) + _BETWEEN + rows


if __name__ == "__main__":
    sys.stdout.write(page())
