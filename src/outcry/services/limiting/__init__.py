"""Limits of requests: how passes are counted, in one process and over several."""
