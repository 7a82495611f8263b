"""Several brokers in processes of their own, which are killed, frozen and joined."""
