"""Messages of one transaction whose end nobody was told: all of it happened, or none.

Each member may be in one of two sets of places. As soon as one member shows which, the
others must follow: a message that was sent and is seen proves that all happened; one
that was completed and is seen again proves that nothing did. What is missing in the
end proves something, too, unless it may be missing for another reason.
"""

from dataclasses import dataclass, field

from simulator.audited_message import GONE, AuditedMessage


@dataclass(slots=True, kw_only=True, eq=False)
class Member:
    """One message, and where it is in either case."""

    message: AuditedMessage
    before: frozenset[str]
    after: frozenset[str]
    # What it proves to see the message; None: nothing.
    if_seen: bool | None


@dataclass(slots=True, eq=False)
class SharedFate:
    """The messages of one transaction."""

    members: list[Member] = field(default_factory=list)

    def add(self, member: Member) -> None:
        self.members.append(member)
        member.message.fate = self

    def seen(self, message: AuditedMessage) -> None:
        """The message was seen, and where it is is known."""
        proof = self._member(message).if_seen
        message.fate = None
        if proof is not None:
            self._decide(proof)

    def missing(self, message: AuditedMessage, highest_now: int) -> None:
        """The message is nowhere."""
        member = self._member(message)
        if member.if_seen is None or GONE in message.places - member.after:
            return
        # Where it would be if it had to be somewhere.
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
