"""All that we use of the vendor's SDK, azure-servicebus, and that is not public.

No other package touches a private part of the SDK (tests/unit/sdk_internals checks it).
`private_parts.PRIVATE_PARTS` lists every part with the reason why the public interface
is not enough, and the same test says which parts an installed release lacks. Pairs run
with azure-servicebus 7.14 and later, Spark with 7.15 and later.

- `clients`: how a client was made, so that a pair can connect as it does.
- `messages`: messages and batches in the forms that the SDK keeps to itself.
- `errors`: the AMQP condition and the status that an error of the SDK hides.
- `links`: opening, asking and closing links of the asynchronous SDK.
- `blocking_links`: the same for the blocking SDK, which Spark uses.
"""
