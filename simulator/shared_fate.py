"""Messages of one transaction of unknown outcome: all of it happened, or none.

Each member may be in one of two sets of places. When one member shows which, the others
must agree: a sent message that is seen proves that the transaction was committed; a
completed one that is seen again proves that it was not. A message that is missing at
the end is a proof, too, unless there may be another reason.
"""

from dataclasses import dataclass, field

from simulator.audited_message import GONE, AuditedMessage


@dataclass(slots=True, kw_only=True, eq=False)
class Member:
    """One message, and its places in either case."""

    message: AuditedMessage
    before: frozenset[str]
    after: frozenset[str]
    # What it proves if the message is seen; None: nothing.
    if_seen: bool | None


@dataclass(slots=True, eq=False)
class SharedFate:
    """The messages of one transaction."""

    members: list[Member] = field(default_factory=list)

    def add(self, member: Member) -> None:
        self.members.append(member)
        member.message.fate = self

    def seen(self, message: AuditedMessage) -> None:
        """The message was seen, so its place is known."""
        proof = self._member(message).if_seen
        message.fate = None
        if proof is not None:
            self._decide(proof)

    def missing(self, message: AuditedMessage, highest_now: int) -> None:
        """The message is nowhere."""
        member = self._member(message)
        if member.if_seen is None or GONE in message.places - member.after:
            return
        # Where it would be if it existed.
        there = member.after if member.if_seen else member.before
        if GONE not in message.may_be_at(highest_now, set(there)):
            self._decide(not member.if_seen)

    def _member(self, message: AuditedMessage) -> Member:
        return next(item for item in self.members if item.message is message)

    def _decide(self, happened: bool) -> None:
        for member in self.members:
            message = member.message
            if message.fate is self:
                message.fate = None
                others = message.places - member.before - member.after
                chosen = member.after if happened else member.before
                message.places = others | chosen
