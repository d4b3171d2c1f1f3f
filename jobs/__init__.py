"""The Temporal client's side: start, signal, decide, describe jobs; and the dispatcher that empties the outbox."""

from jobs.engine import Engine, EngineSettings
from jobs.errors import EngineAway, JobsError, NoJob, NotParked, NoWorker

__all__ = ["Engine", "EngineAway", "EngineSettings", "JobsError", "NoJob", "NoWorker", "NotParked"]
