"""Script for the command `fashioniq train-captioner`."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["train-captioner", *sys.argv[1:]]))
