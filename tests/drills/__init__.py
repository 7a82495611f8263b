"""Drills: brokers and database servers die under load, and an auditor counts."""
