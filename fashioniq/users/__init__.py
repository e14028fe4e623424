"""Who plays the user: sees the target and replies to what is offered. One kind of user a file."""
