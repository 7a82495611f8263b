"""Stands in for azure-mgmt-servicebus: only what the vendor's preparers call."""

from livetests import resources


class ServiceBusManagementClient:
    """Operations by kind of resource, on the server under test."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        self.namespaces = resources.Namespaces()
        self.queues = resources.Queues()
        self.topics = resources.Topics()
        self.subscriptions = resources.Subscriptions()
