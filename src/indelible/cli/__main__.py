"""Makes `python -m indelible.cli` the same as `indelible`."""

import sys

from indelible.cli import main

if __name__ == "__main__":
    sys.exit(main())
