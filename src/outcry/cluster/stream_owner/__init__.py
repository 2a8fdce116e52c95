"""Requests to the process that owns a stream."""
