"""Systems: one kind of system a file, each with its options and its parts, from the files of its runs."""
