"""Evaluations: dialogs, captions and single-turn queries, and comparisons of runs."""
