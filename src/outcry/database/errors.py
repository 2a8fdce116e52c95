"""What goes wrong with the database."""


class StoreBusy(Exception):
    """The store did not answer in time, or at all; worth trying again when `retry`."""

    retry = True
