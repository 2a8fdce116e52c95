"""Errors of the tape.

They have a module of their own, because the modules that read and write the tape are loaded only when first used.
"""


class TapeDamaged(Exception):
    """A stored recording (tape file) is missing, unreadable or altered. The message names the file and the remedy."""


class TapeInUse(Exception):
    """Another process is writing to the tape."""
