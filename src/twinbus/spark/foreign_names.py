"""Option names of other connectors, with what to use here.

People come from Kafka and from Event Hubs, and try the names that they know. Their
options are refused like any unknown one, but the error names ours.
"""

from typing import Final

_CONNECTION: Final = (
    "'credential' (env:NAME or file:/PATH, where the connection string is)"
)
_ENTITIES: Final = "'entities' (queues, and TOPIC/subscriptions/NAME)"
_START: Final = "'startingPosition', 'startTime' or 'fromSequence'"
_END: Final = "'toSequence' or 'endTime' of spark.read; a stream has no end"
_SUBSCRIPTION: Final = (
    "a subscription of its own for each reader: TOPIC/subscriptions/NAME in 'entities'"
)
_MESSAGES: Final = "'maxMessagesPerBatch'"
_TIMEOUT: Final = "'timeout'"
_KEY: Final = "a column 'session_id' or 'partition_key'"

_KAFKA: Final = {
    "kafka.bootstrap.servers": _CONNECTION,
    "subscribe": _ENTITIES,
    "assign": _ENTITIES,
    "subscribepattern": "'entityPattern' (with * and ?, not a regular expression)",
    "topic": "'entity' to write, and 'entities' to read",
    "startingoffsets": _START,
    "startingoffsetsbytimestamp": "'startTime'",
    "startingtimestamp": "'startTime'",
    "endingoffsets": _END,
    "endingoffsetsbytimestamp": _END,
    "endingtimestamp": _END,
    "maxoffsetspertrigger": _MESSAGES,
    "minoffsetspertrigger": "a longer trigger: a batch has what is there",
    "maxtriggerdelay": "a longer trigger: a batch has what is there",
    "minpartitions": "'maxPartitions'",
    "maxrecordsperpartition": "'maxPartitions'",
    "kafka.group.id": _SUBSCRIPTION,
    "groupidprefix": _SUBSCRIPTION,
    "includeheaders": "the column 'application_properties', which is always there",
    "kafkaconsumer.polltimeoutms": _TIMEOUT,
    "fetchoffset.numretries": _TIMEOUT,
}

_EVENT_HUBS: Final = {
    "connectionstring": _CONNECTION,
    "name": _ENTITIES,
    "consumergroup": _SUBSCRIPTION,
    "startingposition": _START,
    "startingpositions": _START,
    "endingposition": _END,
    "endingpositions": _END,
    "maxeventspertrigger": _MESSAGES,
    "receivertimeout": _TIMEOUT,
    "operationtimeout": _TIMEOUT,
    "partitionkey": _KEY,
    "partitionid": _KEY,
}

_OTHERS: Final = {
    # Of Delta, Kinesis, Pub/Sub and file sources.
    "maxbytespertrigger": "'maxBytesPerBatch'",
    "maxfilespertrigger": _MESSAGES,
    "maxrecordspertrigger": _MESSAGES,
    "queuename": _ENTITIES,
    "queue": _ENTITIES,
    "queueurl": _ENTITIES,
    "subscriptionname": _ENTITIES,
    "topicname": _ENTITIES,
}


def counterpart(name: str) -> str | None:
    """What to use instead of an option of another connector."""
    folded = name.lower()
    if folded.startswith("eventhubs."):
        known = _EVENT_HUBS.get(folded.removeprefix("eventhubs."))
        return f"{known or _CONNECTION}; it is an option of Event Hubs"
    if folded.startswith("kafka.") and folded not in _KAFKA:
        return f"{_CONNECTION} for the connection; it is an option of Kafka"
    if folded in _KAFKA:
        return f"{_KAFKA[folded]}; it is an option of Kafka"
    return _EVENT_HUBS.get(folded) or _OTHERS.get(folded)
