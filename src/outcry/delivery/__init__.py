"""Delivery of alerts: subscriptions, outbox, dispatcher, senders and guarded requests."""
