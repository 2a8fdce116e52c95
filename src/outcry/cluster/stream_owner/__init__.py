"""Requests to the process that owns a stream: messages, client and server."""
