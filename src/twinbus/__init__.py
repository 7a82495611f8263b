"""A self-hosted message bus that speaks Azure Service Bus.

Unmodified Azure SDKs connect to it by changing the connection string. The
package is imported in pieces (`twinbus.testing`, `twinbus.client` ...); this
file holds only the version, and chooses the compiled form of the hot modules
before any of them can be imported.
"""

from twinbus import compilation

__version__ = "0.1.0"

compilation.activate()
