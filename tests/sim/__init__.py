"""Worlds of the simulator, and tests that its auditor finds errors."""
