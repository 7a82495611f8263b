"""`python -m twinbus` is the command `twinbus`.

It knows nothing but where the command line begins.
"""

from twinbus.cli.main import main

if __name__ == "__main__":
    main()
