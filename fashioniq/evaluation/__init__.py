"""Evaluations: dialogs, captions and single-turn queries, comparisons of runs, and the pages of studies."""
