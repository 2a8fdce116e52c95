"""The example of an agent's file, with every broker there is an adapter for and what it asks for."""

from outcry.feeds.adapters import adapters
from outcry.ports.connections import Broker

_HEAD = """\
# What `outcry agent` runs and where it pushes to. Take away the # before what you use.
# Keep this file your own (chmod 600): it may hold secrets. Paths are relative to its folder.

# The service, and a key for pushing: its Account page makes one, or `outcry keys create --email … --ingest`.
service = "https://outcry.example.com"
key_file = "agent.key"        # or key = "outcry_…", or the variable OUTCRY_KEY
# ca = "ca.pem"               # who vouches for the service, where that is a certificate of your own

# What the service has not taken yet is kept here, also while it is away.
# spool = "spool"
# spool_limit = "2 GB"        # beyond it the oldest goes, and is told as a gap

# A file that Sierra Chart is writing:
# [[feed]]
# scid = "/path/to/ESZ26_FUT_CME.scid"
"""


def example() -> str:
    """The file as it is written."""
    return _HEAD + "".join(_table(adapter.broker) for adapter in adapters().values())


def _table(broker: Broker) -> str:
    needs = f"  (pip install 'outcry[{broker.extra}]')" if broker.extra else ""
    lines = [
        f"\n# {broker.name}{needs}",
        "# [[feed]]",
        f'# broker = "{broker.id}"',
        '# symbols = ["ES", "NQ"]',
    ]
    for field in broker.fields:
        said = [field.label, field.hint, f"one of: {', '.join(field.options)}" if field.options else ""]
        if field.optional:
            said.append("may be left out")
        lines.append(f'# {field.name} = "{field.usual}"    # {"; ".join(filter(None, said))}')
    return "\n".join(lines) + "\n"
