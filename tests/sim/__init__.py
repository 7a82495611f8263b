"""Worlds of the simulator, and proofs that its auditor sees what goes wrong."""
