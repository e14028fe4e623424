"""Script for the command `fashioniq train-chatsearcher`."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["train-chatsearcher", *sys.argv[1:]]))
