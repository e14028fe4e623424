"""A package with one part of each kind, as another one could have them."""
