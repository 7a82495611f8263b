"""Administration of entities over HTTP, as the SDKs' administration clients speak it.

Atom entries and feeds of XML, whose quirks are the clients': the order of elements,
the spelling of prefixes, two links in a feed. What the properties mean is decided in
`broker/descriptions/`, what exists by the namespace behind `ports.py`.
"""
