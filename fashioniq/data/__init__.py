"""Readers and data types for the files on disk; independent of any model."""
