"""The command `fashioniq import-features` as a script."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["import-features", *sys.argv[1:]]))
