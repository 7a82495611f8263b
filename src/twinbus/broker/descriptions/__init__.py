"""What entities were created with: a value per kind of entity.

Property names are those of the SDK's `QueueProperties`, `TopicProperties` and
`SubscriptionProperties`; durations are whole milliseconds, and 0 where "for ever" is
meant. An update makes a new value. The catalog keeps a description as a JSON object
of what differs from the defaults, so that later versions can add properties and ten
thousand plain entities stay small.
"""
