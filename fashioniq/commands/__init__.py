"""One file a command: it reads, calls the rooms in order, writes, and tells the user."""
