"""Feeds: one package per vendor, and the modules they share."""
