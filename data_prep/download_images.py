"""Script for the command `fashioniq download-images`."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["download-images", *sys.argv[1:]]))
