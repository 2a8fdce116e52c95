"""What replicas share: within one process, plain memory."""
