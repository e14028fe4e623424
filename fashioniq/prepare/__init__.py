"""Creating, downloading, importing and checking Fashion IQ folders."""
