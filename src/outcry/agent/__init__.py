"""The agent: a program that runs feeds on the user's machine and pushes their trades to an Outcry service."""
