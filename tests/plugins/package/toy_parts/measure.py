"""A measure: the square of the reciprocal rank."""

from fashioniq.metrics.measures import Measure, reciprocals

SQUARED = Measure(
    "RR2", lambda rank, _: reciprocals(rank) ** 2, "RR²", 4, "higher", "the square of MRR's reciprocal rank"
)
