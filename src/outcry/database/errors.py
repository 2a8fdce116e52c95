"""Errors of the database."""


class StoreBusy(Exception):
    """The store did not respond in time. Callers may retry."""

    retry = True
