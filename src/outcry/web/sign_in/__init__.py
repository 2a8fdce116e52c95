"""Sign-in and security pages."""
