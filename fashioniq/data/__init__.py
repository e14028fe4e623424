"""What lies on disk; nothing here knows a model."""
