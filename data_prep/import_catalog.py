"""The command `fashioniq import-catalog` as a script."""

import sys

from fashioniq.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["import-catalog", *sys.argv[1:]]))
