"""Losses and Lightning modules, one file per model. `fitting` has what all trainings share."""
