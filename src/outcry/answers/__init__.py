"""Build the answers of the API and the pages, from live and completed sessions."""
