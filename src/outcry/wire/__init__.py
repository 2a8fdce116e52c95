"""The shapes of answers as they go over the wire, for the server and its clients."""
