"""Live dialogs in the terminal: input lines, tables of products and pictures."""
