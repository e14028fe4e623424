"""Script for the command `fashioniq import-catalog`."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["import-catalog", *sys.argv[1:]]))
