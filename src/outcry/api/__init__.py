"""The HTTP API: read endpoints, event stream, pushes, probes, and the OpenAPI document."""
