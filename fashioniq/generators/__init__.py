"""Generators of pictures from texts."""
