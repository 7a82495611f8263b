"""AMQP 1.0 primitive types that have no exact Python type.

If Python has an exact type, a plain value is used (None, bool, float, bytes, str,
uuid.UUID, list, dict). Every other type has a class here that keeps the wire type, so
that decoding and encoding gives the same type. A plain int is an AMQP long. Ranges are
checked when a value is encoded, not when it is made, because these objects are created
for every decoded field.

A compiled class cannot extend a built-in one, hence `native_class=False`.

The bytes on the wire are in codec.py.
"""

from typing import final

from mypy_extensions import mypyc_attr


@final
@mypyc_attr(native_class=False)
class Symbol(str):
    """ASCII text from a constrained domain (AMQP 1.0 part 1, 1.6.21)."""

    __slots__ = ()


@final
@mypyc_attr(native_class=False)
class Char(str):
    """One Unicode code point."""

    __slots__ = ()


@final
@mypyc_attr(native_class=False)
class UByte(int):
    __slots__ = ()


@final
@mypyc_attr(native_class=False)
class UShort(int):
    __slots__ = ()


@final
@mypyc_attr(native_class=False)
class UInt(int):
    __slots__ = ()


@final
@mypyc_attr(native_class=False)
class ULong(int):
    __slots__ = ()


@final
@mypyc_attr(native_class=False)
class Byte(int):
    __slots__ = ()


@final
@mypyc_attr(native_class=False)
class Short(int):
    __slots__ = ()


@final
@mypyc_attr(native_class=False)
class Int(int):
    __slots__ = ()


# A plain int is a long; the name is for places where that should be explicit.
Long = int


@final
@mypyc_attr(native_class=False)
class Timestamp(int):
    """Milliseconds since the Unix epoch, signed."""

    __slots__ = ()


@final
@mypyc_attr(native_class=False)
class Float32(float):
    """Encoded with four bytes; the value is not rounded before it is encoded."""

    __slots__ = ()


@final
@mypyc_attr(native_class=False)
class Decimal32(bytes):
    """The four bytes of an IEEE 754-2008 decimal32, passed on as they are."""

    __slots__ = ()


@final
@mypyc_attr(native_class=False)
class Decimal64(bytes):
    """The eight bytes of an IEEE 754-2008 decimal64, passed on as they are."""

    __slots__ = ()


@final
@mypyc_attr(native_class=False)
class Decimal128(bytes):
    """The sixteen bytes of an IEEE 754-2008 decimal128, passed on as they are."""

    __slots__ = ()


@final
@mypyc_attr(native_class=False)
class Encoded(bytes):
    """One value that is already encoded; the encoder copies it to the output."""

    __slots__ = ()


@final
class Described:
    """A value with a descriptor that says what it means."""

    __slots__ = ("descriptor", "value")

    def __init__(self, descriptor: object, value: object) -> None:
        self.descriptor = descriptor
        self.value = value

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Described)
            and self.descriptor == other.descriptor
            and self.value == other.value
        )

    def __hash__(self) -> int:
        return hash((self.descriptor, self.value))

    def __repr__(self) -> str:
        return f"Described({self.descriptor!r}, {self.value!r})"


@final
class AmqpArray:
    """Values that share one constructor (and descriptor, when they are described)."""

    __slots__ = ("constructor", "descriptor", "items")

    def __init__(
        self, constructor: int, items: list[object], descriptor: object = None
    ) -> None:
        self.constructor = constructor
        self.items = items
        self.descriptor = descriptor

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, AmqpArray)
            and self.constructor == other.constructor
            and self.descriptor == other.descriptor
            and self.items == other.items
        )

    __hash__ = None  # type: ignore[assignment]  # mutable, like list

    def __repr__(self) -> str:
        return f"AmqpArray({self.constructor:#04x}, {self.items!r})"
