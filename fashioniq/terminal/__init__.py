"""A live dialog in the terminal: lines of input, tables of products, pictures."""
