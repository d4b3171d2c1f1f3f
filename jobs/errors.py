"""What can go wrong between us and the Temporal server, in words that a page can show."""


class JobsError(Exception):
    """Base of this package's errors. The message is for people."""


class EngineAway(JobsError):
    """The Temporal server does not answer. What was accepted is in the store and starts when it is back."""


class NoJob(JobsError):
    """The cluster has no open job."""


class NotParked(JobsError):
    """A decision was refused: the job waits for nobody, or it is just ending."""


class NoWorker(JobsError):
    """The Temporal server answers, but no worker took the decision in time."""
