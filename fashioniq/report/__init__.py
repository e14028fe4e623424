"""What people look at after an evaluation: plots and the page of dialogs."""
