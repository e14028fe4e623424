"""Losses and Lightning modules, one file per model; `fitting` is what all trainings share."""
