"""The operation log of stores, exported to files: each operation once."""
