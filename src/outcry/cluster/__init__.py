"""Run several processes as one service, connected by the message bus NATS.

Only `app` imports this package, so a single process works without it.
"""
