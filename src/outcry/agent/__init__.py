"""Feeds that run at the user's side and push trades to a service."""
