"""What points the vendor's live tests at another server: runs in their process.

`plugin` is loaded by pytest and uses the rest. Nothing of twinbus is imported here, so
any server can be under test.
"""
