"""Run several processes as one service over NATS. No package below `app` imports this one."""
