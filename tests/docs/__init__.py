"""The documentation, held against the program: code runs, links lead somewhere."""
