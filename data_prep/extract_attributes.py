"""Script for the command `fashioniq extract-attributes`."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["extract-attributes", *sys.argv[1:]]))
