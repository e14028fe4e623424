"""Askers, which choose the system's offers without access to the target. One kind of asker per file."""
