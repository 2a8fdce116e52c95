"""Sign-in and security."""
