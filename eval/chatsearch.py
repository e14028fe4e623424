"""Script for the command `fashioniq eval-chatsearch`."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["eval-chatsearch", *sys.argv[1:]]))
