"""Torch modules, one file per block of the paper's figure; nothing here reads a file.

Shape letters: B dialogs or pairs, T turns, L words or tokens, A attributes, D vector, N gallery, K shown, H heads, V vocabulary.
"""
