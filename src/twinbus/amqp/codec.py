"""The AMQP 1.0 type system on the wire: one name for both directions.

`decode` and `skip` raise nothing but DecodeError, `encode` nothing but LocalError.
"""

from twinbus.amqp.decoder import NESTING_LIMIT, decode, skip
from twinbus.amqp.encoder import encode

__all__ = ["NESTING_LIMIT", "decode", "encode", "skip"]
