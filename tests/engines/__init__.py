"""The real engines that tests, the bench and the simulation run on: PostgreSQL and NATS, from PyPI, on free loopback
ports, started and stopped here."""
