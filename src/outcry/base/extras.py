"""The distribution's name and its extras, which are optional groups of libraries.

`pip install openoutcry` installs the library and the client. Every other part needs an extra. If the extra is missing,
the error names it.
"""

DISTRIBUTION = "openoutcry"


class MissingExtra(ImportError):
    """A library of an extra is not installed. The message names the extra and the command that installs it."""

    def __init__(self, purpose: str, extra: str) -> None:
        super().__init__(f"{purpose} needs the extra `{extra}`. Run: {install_command(extra)}")


def install_command(extra: str = "") -> str:
    """Return the command that installs Outcry, with an extra if one is given."""
    return f"pip install '{DISTRIBUTION}[{extra}]'" if extra else f"pip install {DISTRIBUTION}"
