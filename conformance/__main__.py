"""`python -m conformance` is `python -m conformance.run`."""

import sys

from conformance.run import main

if __name__ == "__main__":
    sys.exit(main())
