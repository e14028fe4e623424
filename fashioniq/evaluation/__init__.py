"""Studies of several runs: what is read from their result files, and the pages that are rendered from them."""
