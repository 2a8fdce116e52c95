"""PostgreSQL and NATS servers, installed from PyPI, started and stopped on free loopback ports."""
