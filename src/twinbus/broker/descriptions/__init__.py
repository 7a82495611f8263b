"""The properties of entities: one class per kind of entity.

Property names are those of the SDK's `QueueProperties`, `TopicProperties` and
`SubscriptionProperties`. Durations are whole milliseconds; 0 means no limit. An update
makes a new value. The catalog keeps a description as a JSON object of the properties
that differ from the defaults: later versions can add properties, and ten thousand plain
entities stay small.
"""
