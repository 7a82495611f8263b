"""A self-hosted message bus that speaks Azure Service Bus.

Unmodified Azure SDKs connect to it by changing the connection string. The
package is imported in pieces (`twinbus.testing`, `twinbus.client` ...); this
file holds only the version, so that importing one piece costs nothing else.
"""

__version__ = "0.1.0"
