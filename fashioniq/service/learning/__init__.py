"""Learning from the log of the live service: training data without leakage, training, and a gate."""
