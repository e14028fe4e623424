"""Users, which have access to the target and reply to offers. One kind of user per file."""
