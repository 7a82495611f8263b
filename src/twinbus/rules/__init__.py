"""Rules of subscriptions: which messages they select, and how they change them.

The modules here are pure and compiled: values, expressions, filters, actions, and the
index that finds the matching rules of a topic. They do not know how a message is
encoded (they use a `MessageView`), nor the syntax of rules: that is `rules/sql`, which
is plain Python and uses them.
"""
