"""Rules of subscriptions: which messages they select, and what they change in them.

The modules here are pure and compiled: values, expressions, filters, actions, and the
index that finds the matching rules of a whole topic. They do not know how a message is
encoded (they ask a `MessageView`), nor how a rule is written: that is `rules/sql`,
which is plain Python and builds on them.
"""
