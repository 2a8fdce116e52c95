"""Feeds in one process, their streams in another: what is asked and answered between them."""
