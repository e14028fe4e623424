"""Trained retrievers for other software: ONNX files, and the layout of the Hugging Face hub."""
