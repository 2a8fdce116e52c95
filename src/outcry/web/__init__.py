"""The web pages: everything that a person does with Outcry in a browser."""
