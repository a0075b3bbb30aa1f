"""Makes `python -m indelible` the same as `indelible`."""

import sys

from indelible.cli import main

if __name__ == "__main__":
    sys.exit(main())
