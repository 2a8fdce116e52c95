"""The read endpoints, their OpenAPI document, and the probes: the application a server runs."""
