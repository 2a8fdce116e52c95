"""Delivering: what is sent when, tried again when, and given up when. How it is sent is the business of senders."""
