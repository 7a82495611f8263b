"""The syphon's engine over azure-servicebus: portable, between any two namespaces."""
