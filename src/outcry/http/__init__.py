"""Code shared by the API and the web pages: authentication, limits, errors, caching, the server and its fast path."""
