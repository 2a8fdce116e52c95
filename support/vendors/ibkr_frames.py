"""Messages of the TWS protocol as TWS writes and reads them.

Written from Interactive Brokers' description (server version 178). A message has four bytes of length, big-endian, then
text fields, each ended by a NUL. No code of the adapter or its library is used here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

SERVER_VERSION = 178


@dataclass(frozen=True)
class Listed:
    """A product as Interactive Brokers lists it. magnifier: factor between its prices and dollars."""

    symbol: str
    exchange: str
    trading_class: str
    size: str
    magnifier: int = 1


def _listed() -> dict[str, Listed]:
    """Return the products by the exchange's root."""
    cme = {
        "ES": "50", "NQ": "20", "RTY": "50", "MES": "5", "MNQ": "2", "M2K": "5",
        "M6E": "12500", "M6B": "6250", "M6A": "10000", "MJY": "1250000", "MBT": "0.1", "MET": "0.1",
    }  # fmt: skip
    nymex = {
        "CL": "1000", "NG": "10000", "RB": "42000", "HO": "42000", "PL": "50", "MCL": "100",
    }  # fmt: skip
    comex = {"GC": "100", "SI": "5000", "HG": "25000", "MGC": "10", "MHG": "2500"}
    cbot = {"YM": "5", "MYM": "0.5", "ZB": "1000", "ZN": "1000", "ZF": "1000", "ZT": "2000", "ZM": "100"}
    found = {
        root: Listed(root, exchange, root, size)
        for exchange, sizes in (("CME", cme), ("NYMEX", nymex), ("COMEX", comex), ("CBOT", cbot))
        for root, size in sizes.items()
    }
    in_cents = {"ZC": ("CBOT", "5000"), "ZW": ("CBOT", "5000"), "ZS": ("CBOT", "5000"), "ZL": ("CBOT", "60000"),
                "LE": ("CME", "40000"), "HE": ("CME", "40000"), "GF": ("CME", "50000")}  # fmt: skip
    found |= {root: Listed(root, at, root, size, 100) for root, (at, size) in in_cents.items()}
    currencies = {"6E": ("EUR", "125000"), "6S": ("CHF", "125000"), "6B": ("GBP", "62500"),
                  "6A": ("AUD", "100000"), "6C": ("CAD", "100000"), "6J": ("JPY", "12500000")}  # fmt: skip
    found |= {root: Listed(symbol, "CME", root, size) for root, (symbol, size) in currencies.items()}
    found["BTC"] = Listed("BRR", "CME", "BTC", "5")
    found["ETH"] = Listed("ETHUSDRR", "CME", "ETH", "50")
    found["SIL"] = Listed("SI", "COMEX", "SIL", "1000")
    found["MNG"] = Listed("MHNG", "NYMEX", "MNG", "1000")
    return found


LISTED = _listed()


def frame(*fields: object) -> bytes:
    """Encode a message."""
    body = "".join(f"{field}\0" for field in fields).encode()
    return len(body).to_bytes(4, "big") + body


def unframed(data: bytes) -> tuple[list[list[str]], bytes]:
    """Split received data into complete messages and the remaining bytes."""
    messages: list[list[str]] = []
    while len(data) >= 4 and len(data) >= 4 + (length := int.from_bytes(data[:4], "big")):
        messages.append(data[4 : 4 + length].decode().split("\0")[:-1])
        data = data[4 + length :]
    return messages, data


def price_text(price_e9: int) -> str:
    """Return a price in TWS's format."""
    text = f"{Decimal(price_e9) / 1_000_000_000:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def note(request: int, code: int, text: str) -> bytes:
    """Encode an error or a notice; request -1: it belongs to no request."""
    return frame(4, 2, request, code, text, "")


def contract_details(
    request: int, listed: Listed, con_id: int, month: str, last_day: str, hours: str
) -> bytes:
    """Encode a contract that was found."""
    times = f"{last_day} 08:30:00 US/Central"
    return frame(
        10, request, listed.symbol, "FUT", times, "0", "", listed.exchange, "USD", f"{listed.trading_class}{month}",
        listed.trading_class, listed.trading_class, con_id, "0.01", listed.size, "LMT,MKT", listed.exchange,
        listed.magnifier, 11004968, "A product", "", month, "", "", "", "US/Central", hours, hours, "", "0", "0",
        "2147483647", listed.symbol, "IND", "67", last_day, "", "1", "1", "1",
    )  # fmt: skip


def bars(request: int, rows: Iterable[Sequence[int]]) -> bytes:
    """Encode bars: start in seconds, open, high, low, close (10⁻⁹), lots."""
    fields = [
        field
        for start_s, *prices, lots in rows
        for field in (start_s, *map(price_text, prices), lots, price_text(prices[0]), 1)
    ]
    return frame(17, request, "", "", len(fields) // 8, *fields)


def page(request: int, rows: Iterable[Sequence[int]], *, done: bool = True) -> bytes:
    """Encode a page of historical trades: seconds, price (10⁻⁹), lots."""
    fields = [field for at_s, price, lots in rows for field in (at_s, 0, price_text(price), lots, "CME", "")]
    return frame(98, request, len(fields) // 6, *fields, int(done))


def trade(request: int, at_s: int, price_e9: int, lots: int) -> bytes:
    """Encode a live trade (`AllLast`)."""
    return frame(99, request, 2, at_s, price_text(price_e9), lots, 0, "CME", "")
