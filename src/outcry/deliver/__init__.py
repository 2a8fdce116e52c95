"""Reaching others outside: mail servers, OpenID providers."""
