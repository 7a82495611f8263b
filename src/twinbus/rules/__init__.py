"""Rules of subscriptions: which messages they select, and what they change in them.

Pure. Values, expressions, filters, actions, and the index that finds the matching
rules of a whole topic. Nothing here knows how a message is encoded (it is asked
through `MessageView`) nor how a rule is written (that is the package `rule_sql`).
"""
