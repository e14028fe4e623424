"""What makes, downloads, imports or checks a Fashion IQ folder."""
