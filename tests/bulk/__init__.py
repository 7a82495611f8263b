"""The bulk requests, as clients make them: a real bus, real HTTP, and the vendor's SDK
beside it."""
