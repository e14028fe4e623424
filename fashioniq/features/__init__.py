"""Feature store and its sources: pictures, metadata, vectors from other encoders."""
