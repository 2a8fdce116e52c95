"""Feeds that run on the user's machine and push their trades to a service."""
