"""Evaluation measures as plain functions of arrays, each with its source."""
