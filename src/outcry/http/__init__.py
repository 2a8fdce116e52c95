"""What every web surface shares: authentication, limits, errors, request ids, entity tags, the server and
its fast path."""
