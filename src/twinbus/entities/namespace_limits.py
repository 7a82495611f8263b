"""How much a namespace may have. Each namespace of a server counts for itself."""

from dataclasses import dataclass, field

from twinbus.entities.partitioning import DOCUMENTED_PARTITIONING, Partitioning
from twinbus.entities.topic_quotas import DOCUMENTED_QUOTAS, TopicQuotas
from twinbus.limits import ENTITY_MEGABYTES
from twinbus.links.extensions import Extensions


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceLimits:
    """Of one namespace."""

    # Of queues and topics.
    max_entities: int
    max_message_bytes: int
    max_entity_message_bytes: int
    max_entity_megabytes: int = ENTITY_MEGABYTES
    topic_quotas: TopicQuotas = DOCUMENTED_QUOTAS
    partitioning: Partitioning = DOCUMENTED_PARTITIONING
    # Features beyond Service Bus.
    extensions: Extensions = field(default_factory=Extensions)
