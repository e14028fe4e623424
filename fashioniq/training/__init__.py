"""Losses, Lightning modules and runs of trainings, one file per model, or two if one were too long.

`fitting` has what all trainings share.
"""
