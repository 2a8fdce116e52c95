"""The list of commands names existing commands and describes each as its own help does."""

import pytest

from outcry.cli import COMMANDS, app


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_found_and_described(name: str) -> None:
    command = COMMANDS[name]
    first_paragraph = str(app[name].help).split("\n\n", maxsplit=1)[0]
    # Import-linter does not see the path, but knows this package.
    assert command.path.startswith("outcry.cli.")
    assert command.summary == " ".join(first_paragraph.split())


def test_help_describes_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    app("--help", exit_on_error=False, result_action="return_value")
    printed = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for name, command in COMMANDS.items():
        assert f"{name} {command.summary.replace('`', '')}" in printed
