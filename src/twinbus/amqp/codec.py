"""Encoding and decoding of AMQP 1.0 types, in one place to import from.

`decode` and `skip` raise only DecodeError, `encode` only LocalError.
"""

from twinbus.amqp.decoder import NESTING_LIMIT, decode, skip
from twinbus.amqp.encoder import encode

__all__ = ["NESTING_LIMIT", "decode", "encode", "skip"]
