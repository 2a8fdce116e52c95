"""The command `outcry`, also started by `python -m outcry`."""

import sys

from outcry.base.extras import MissingExtra


def main() -> None:
    """Run the command line. Without the libraries of the extra `serve`, say how to install them."""
    try:
        from outcry.cli import main as run  # noqa: PLC0415 - the library and the client work without it
    except ModuleNotFoundError as problem:
        if (problem.name or "").partition(".")[0] == "outcry":
            raise
        sys.exit(f"outcry: {MissingExtra('The command line', 'serve')}")
    run()


if __name__ == "__main__":
    main()
