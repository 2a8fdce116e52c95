"""Delivery of alerts: subscriptions, outbox (alerts to be delivered), dispatcher, senders and guarded requests."""
