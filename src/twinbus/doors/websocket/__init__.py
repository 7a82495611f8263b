"""AMQP over WebSockets: the handshake, the frames, and the stream inside of them."""
