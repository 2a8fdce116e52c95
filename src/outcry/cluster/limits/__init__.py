"""Request limits that several processes share."""
