"""Pairing: its policy, its shells in virtual time, its adapters."""
