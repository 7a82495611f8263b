"""The vendor's own live tests of azure-servicebus, run against a bus.

    make conformance                                  # all, on a bus of its own
    make conformance ARGS="--select sync -k sessions"
    SB_CONNECTION_STRING=... make conformance         # on any endpoint

The tests are fetched with pip when they are needed and are not changed; none of them
is kept here. `shim/` stands in for the two things they need and cannot have: Azure
Resource Manager and a test kit that is not published. README.md has the rest.
"""
