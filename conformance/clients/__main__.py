"""`python -m conformance.clients` is `python -m conformance.clients.run`."""

import sys

from conformance.clients.run import main

if __name__ == "__main__":
    sys.exit(main())
