"""Measures: plain functions of arrays, each with its source."""
