"""Script for the command `fashioniq caption-pairs`."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["caption-pairs", *sys.argv[1:]]))
