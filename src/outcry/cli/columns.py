"""Names of the columns of every command that prints rows, in order. Programs read them, so they are stable.

`docs/reference/settings.md` lists them. A test compares them with what the commands print.
"""

from types import MappingProxyType

KEYS = ("prefix", "tier", "email", "created", "revoked", "role", "label", "expires", "last_used")
GRANTS = ("grant", "grantee", "scope", "symbols", "from", "until", "embargo_hours", "licence")
GRANT_LOG = ("at", "event", "by", *GRANTS, "declared")
USERS = ("email", "role", "tier", "created", "sign_in", "disabled")
VAULT = ("key", "credentials", "state")
SESSIONS = ("date", "session", "open", "close", "open_utc", "close_utc", "length")
IMPORTED = ("date", "session", "contract", "quality", "rows", "volume", "off_tick", "duplicate", "out_of_order",
            "complete", "kept", "holes")  # fmt: skip
#: Of `outcry import --list`.
IMPORTS = ("id", "imported", "name", "digest", "bytes", "rows", "format", "source", "contract", "tz", "stamp", "scale",
           "contracts", "qualities", "days", "first", "last", "volume", "decimal", "dates", "bad_rows")  # fmt: skip
#: Of `outcry import --forget`.
FORGOTTEN = ("contract", "date", "source", "quality", "removed", "left")
REFOLDED = ("contract", "sessions")
LEVELS = ("level", "price", "date")
ALERTS = ("symbol", "type", "severity", "price", "ref", "message")
#: Of `outcry alerts --follow --format csv`.
FOLLOWED = ("at", *ALERTS)
MATCHES = ("distance", "poc", "vah", "val", "vpoc", "preset", "differences", "alike")
#: Of `outcry instruments list` and `add`.
INSTRUMENTS = ("root", "name", "exchange", "zone", "tick", "size_step", "months", "origin")
INSTRUMENT = ("field", "value")
OWN_INSTRUMENTS = ("root", "tables", "replaces")
FINDINGS = ("check", "finding")
AGENT_CHECKS = ("feed", "contract", "step", "result", "code", "message")

#: The columns by command.
COLUMNS = MappingProxyType(
    {
        "agent check": AGENT_CHECKS,
        "alerts": ALERTS,
        "alerts --follow": FOLLOWED,
        "doctor": FINDINGS,
        "fetch": IMPORTED,
        "fetch hyperliquid": IMPORTED,
        "grants list": GRANTS,
        "grants log": GRANT_LOG,
        "import": IMPORTED,
        "import --forget": FORGOTTEN,
        "import --list": IMPORTS,
        "instruments add": INSTRUMENTS,
        "instruments check": OWN_INSTRUMENTS,
        "instruments list": INSTRUMENTS,
        "instruments show": INSTRUMENT,
        "keys list": KEYS,
        "levels": LEVELS,
        "match": MATCHES,
        "refold": REFOLDED,
        "session": SESSIONS,
        "sessions": SESSIONS,
        "users list": USERS,
        "vault status": VAULT,
    }
)
