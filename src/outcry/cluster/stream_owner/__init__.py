"""Requests to the process that owns a live stream, that is, computes its levels: messages, client and server."""
