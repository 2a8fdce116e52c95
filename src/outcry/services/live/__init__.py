"""The engine in service: feeds in, one ordered and journalled stream a contract, answers and alerts out."""
