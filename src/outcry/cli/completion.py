"""`outcry completion`: the script by which a shell completes commands, options and their values."""

from collections.abc import Iterator
from typing import Literal

from outcry.cli import app


def completion(shell: Literal["bash", "zsh", "fish"]) -> int:
    """Print a completion script for bash, zsh or fish. Save it where your shell looks for completions.

    The script is static: pressing Tab does not start Outcry. Run the command again after an upgrade.

        outcry completion bash > ~/.local/share/bash-completion/completions/outcry

        outcry completion zsh > ~/.zfunc/_cyclopts_outcry     # the folder is in fpath, the name matters

        outcry completion fish > ~/.config/fish/completions/outcry.fish

    Parameters
    ----------
    shell
        Your shell: bash, zsh or fish.
    """
    print(app.generate_completion(shell=shell))
    if shell == "fish":
        print("\n".join(_no_files()))
    return 0


def _no_files() -> Iterator[str]:
    """Return the lines by which fish offers no files where a command has to be named."""
    yield "complete -c outcry -n __fish_use_subcommand -f"
    for name, command in app.resolved_commands().items():
        if any(not inner.startswith("-") for inner in command.resolved_commands()):
            yield f"complete -c outcry -n '__fish_outcry_using_command {name}' -f"
