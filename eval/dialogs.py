"""Script for the command `fashioniq eval-dialogs`."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["eval-dialogs", *sys.argv[1:]]))
