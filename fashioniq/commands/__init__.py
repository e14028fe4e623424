"""Commands, one per file: check the options, call the package, write and print the results."""
