"""Script for the command `fashioniq describe-pictures`."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["describe-pictures", *sys.argv[1:]]))
