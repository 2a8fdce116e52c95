"""A person's own feeds: broker connections, run by this service, and what the person's own programs push."""
