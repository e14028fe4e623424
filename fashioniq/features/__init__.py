"""The feature store and everything that fills it: pictures, metadata, vectors of other encoders."""
