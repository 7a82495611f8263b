"""What ends a run of the job, or a query of it."""


class SyphonError(RuntimeError):
    """The job cannot go on; the text says why, and what to do."""


class SideAway(SyphonError):
    """A namespace does not answer."""


class SideRefuses(SyphonError):
    """A namespace is there, and the key is not good enough."""


class NotOffered(SyphonError):
    """A namespace is none that the job can work with."""


class LeaseGone(SyphonError):
    """A backlog queue is somebody else's now. Nothing of the batch was settled; it is
    read again by whoever has the lease."""


class Stopped(SyphonError):
    """The job was told to stop before the batch began."""
