"""Script for the command `fashioniq import-features`."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["import-features", *sys.argv[1:]]))
