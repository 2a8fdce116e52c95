"""Several processes as one service: everything on NATS. Nothing else imports it."""
