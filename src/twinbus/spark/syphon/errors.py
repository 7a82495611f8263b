"""Errors that end a run of the job, or one of its queries."""


class SyphonError(RuntimeError):
    """The job cannot go on; the text says why, and what to do."""


class SideAway(SyphonError):
    """A namespace does not answer."""


class SideRefuses(SyphonError):
    """A namespace answers, and refuses the key."""


class NotOffered(SyphonError):
    """The job cannot work with this kind of namespace."""


class LeaseGone(SyphonError):
    """Another reader has the lease of a backlog queue now. Nothing of the batch was
    settled; the other reader reads it again."""


class Stopped(SyphonError):
    """The job was told to stop before the batch began."""
