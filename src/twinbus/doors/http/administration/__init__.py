"""Administration of entities over HTTP, as the SDKs' administration clients use it.

Bodies are Atom entries and feeds in XML. Clients depend on details: the order of
elements, the spelling of prefixes, two links in a feed. What the properties mean is
defined in `broker/descriptions/`; the namespace knows which entities exist.
"""
