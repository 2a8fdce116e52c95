"""Alerts to receivers: subscriptions, outbox, dispatch and channels."""
