"""What a system puts before the user: one asker a file. None of them sees the target."""
