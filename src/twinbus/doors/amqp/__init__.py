"""The AMQP door: connections, links, and requests to `$cbs` and `$management`."""
