"""The pages: what a person does with Outcry in a browser."""
