"""`outcry match`: find the settings that reproduce the levels of another platform."""

import sys
from datetime import date
from typing import Annotated

import msgspec
from cyclopts import Parameter

from outcry.access.licences import VISITOR, Grant, Scope
from outcry.answers.matching import GivenPrices
from outcry.app.installation import open_installation
from outcry.app.settings import read_settings
from outcry.base.errors import NoLicensedSource, NotFound, UnknownSymbol
from outcry.cli.columns import MATCHES
from outcry.cli.tables import Cell, Output, print_rows
from outcry.market.units import price_of_text
from outcry.wire.match import MatchAnswer, MatchedSetting

#: All recordings of the operator, who owns the data folder.
_OPERATOR = Scope(VISITOR, (Grant("everyone", "completed", (), None, None, 0),))


def match(
    symbol: str,
    day: date,
    *,
    poc: str,
    vah: str,
    val: str,
    vpoc: str | None = None,
    output: Output = None,
    data: Annotated[str | None, Parameter(name="--data")] = None,
) -> int:
    """Find the settings that reproduce the levels of another platform.

    Type the levels that your platform shows for one regular session. The command searches the settings in which
    platforms differ: hours, time zone, TPO or volume, brackets, row size, percentage and growth of the value area, tie
    rules, trades or bars, and the contract. It reads the recordings of the data folder, so import the session first.

    Prints the nearest settings, nearest first. `distance` is the sum of the differences in ticks; 0 means that all
    levels are reproduced. `differences` says in words why our levels differ. Among settings with the same levels, the
    one that differs least from ours comes first, and `alike` counts them. JSON has every part of a setting.

    The exit status is 0 if a setting reproduces the levels, and 1 if none does or the session is not recorded.

        outcry match ES 2026-11-19 --poc 6650.25 --vah 6661 --val 6638.5

    Parameters
    ----------
    symbol
        Product or contract: ES, ESZ6, MES, /ES …
    day
        Trade date of the session, YYYY-MM-DD.
    poc
        Point of control.
    vah
        Value area high.
    val
        Value area low.
    vpoc
        Volume POC, if your platform shows one beside a TPO profile.
    data
        Data folder. Default: OUTCRY_DATA.
    """
    try:
        given = GivenPrices(_price(poc), _price(vah), _price(val), None if vpoc is None else _price(vpoc))
    except ValueError as problem:
        return _refuse(str(problem), 2)
    if given.vah_e9 < given.val_e9:
        return _refuse(f"--vah {vah} is below --val {val}. Swap the two prices.", 2)
    with open_installation(read_settings(data=data)) as installation:
        now_ns = installation.clock.now_ns()
        try:
            answer = installation.query.match(_OPERATOR, symbol, str(day), given, now_ns).answer
        except UnknownSymbol as problem:
            similar = ", ".join(problem.details.get("suggestions", ()))
            return _refuse(f"Unknown symbol {symbol}." + (f" Did you mean {similar}?" if similar else ""), 1)
        except (NotFound, NoLicensedSource):
            return _refuse(
                f"No completed regular session of {symbol} is recorded for {day}. Import it with `outcry import`.",
                1,
            )
    _print(answer, output)
    return 0 if answer.exact else 1


def _print(answer: MatchAnswer, output: Output) -> None:
    if output == "json":
        print(msgspec.json.format(msgspec.json.encode(answer)).decode())
    else:
        print_rows(MATCHES, map(_row, answer.matches), output)
    if answer.recording == "profile":
        print(
            "outcry: The trades of this session are not on the tape, so only its stored profile was searched.",
            file=sys.stderr,
        )
    elif answer.not_searched:
        print(
            f"outcry: Not recorded and therefore not searched: {', '.join(answer.not_searched)}.",
            file=sys.stderr,
        )
    if not answer.exact:
        print("outcry: No setting reproduces these levels. Check the contract and the date.", file=sys.stderr)


def _row(found: MatchedSetting) -> list[Cell]:
    reasons = (
        " ".join(difference.reason for difference in found.differences) or "None: this is our own setting."
    )
    return [
        found.distance, found.poc, found.vah, found.val, found.vpoc, found.preset, reasons, found.alike,
    ]  # fmt: skip


def _price(text: str) -> int:
    """Return a price in 10⁻⁹. Raises `ValueError`."""
    found = price_of_text(text)
    if found is None:
        raise ValueError(f"{text!r} is not a price. Use a decimal number such as 6650.25.")
    return found


def _refuse(message: str, status: int) -> int:
    print(f"outcry match: {message}", file=sys.stderr)
    return status
