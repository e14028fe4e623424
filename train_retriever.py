"""Script for the command `fashioniq train-retriever`."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["train-retriever", *sys.argv[1:]]))
