"""Torch modules, one file per block of the paper's figure. Nothing here reads files.

Shape suffixes: B dialogs or pairs, T turns, L words or tokens, A attributes, D vector size, N gallery,
K shown, H heads, V vocabulary.
"""
