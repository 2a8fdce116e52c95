"""Data types of the API's answers and stream events, for the server and its clients."""
