"""Pages, plots and tables of results."""
