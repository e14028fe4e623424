"""The command `fashioniq pair-references` as a script."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["pair-references", *sys.argv[1:]]))
