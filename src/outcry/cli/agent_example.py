"""The example of the agent's configuration file, with all brokers and their fields."""

from outcry.base.extras import install_command
from outcry.connections.model import Broker
from outcry.feeds.adapters import adapters

_HEAD = """\
# Configuration of `outcry agent`. Remove the # in front of the lines you use.
# The file can contain secrets: keep it readable by you only (chmod 600). Relative paths start at its folder.

# URL of the service, and a key for pushing trades. Create the key on the service's Account page, or with
# `outcry keys create --email … --ingest`.
service = "https://outcry.example.com"
key_file = "agent.key"        # or key = "outcry_…", or the environment variable OUTCRY_KEY
# ca = "ca.pem"               # root certificates, if the service has a certificate of your own CA

# Folder for trades that the service has not accepted yet.
# spool = "spool"
# spool_limit = "2 GB"        # above this size the oldest trades are deleted and reported as a gap

# A file that Sierra Chart writes:
# [[feed]]
# scid = "/path/to/ESZ26_FUT_CME.scid"
"""


def example() -> str:
    """Return the text of the example configuration file."""
    return _HEAD + "".join(_table(adapter.broker) for adapter in adapters().values())


def _table(broker: Broker) -> str:
    needs = f"  ({install_command(broker.extra)})" if broker.extra else ""
    lines = [
        f"\n# {broker.name}{needs}",
        "# [[feed]]",
        f'# broker = "{broker.id}"',
        '# symbols = ["ES", "NQ"]',
    ]
    for field in broker.fields:
        comments = [field.label, field.hint, f"one of: {', '.join(field.options)}" if field.options else ""]
        if field.optional:
            comments.append("optional")
        lines.append(f'# {field.name} = "{field.usual}"    # {"; ".join(filter(None, comments))}')
    return "\n".join(lines) + "\n"
