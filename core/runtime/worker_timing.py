"""How often a worker does what: so that a killed worker's job is back within two minutes, and a stop takes seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WorkerTiming:
    """Seconds, whole ones: RQ's alarms know no others."""

    beat: int = 2
    """A running job is vouched for this often."""
    grace: int = 40
    """A job that nobody vouched for this long after its beat was due is taken from its worker."""
    maintenance: int = 15
    """Such jobs are looked for this often, also while a job runs."""
    lock: int = 15
    """How long a worker that died while looking keeps others from it. RQ's own 15 minutes are too long."""
    wait: int = 2
    """How long a worker waits for a job at a time; in between it looks after the queues, or stops."""
    patience: float = 3.5
    """How long a job may take to end when we are told to stop. honcho kills after 5 s."""

    @property
    def life(self) -> int:
        """How long a job counts as running after its last beat."""
        return self.beat + self.grace

    def back_within(self, retry_seconds: int) -> int:
        """At most this long after a kill the job is in its queue again, if a worker is there."""
        looked_for = self.lock + self.maintenance + max(self.wait, self.beat) + 1
        return self.life + looked_for + retry_seconds + max(self.wait, self.beat) + 1
