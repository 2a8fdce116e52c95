"""Errors of the database."""


class StoreBusy(Exception):
    """The database did not respond in time. Callers may retry."""

    retry = True
