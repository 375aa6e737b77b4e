"""Tell a network that is down from single hosts that are down.

If nearly all requests do not even reach a host, we are offline: then nothing is counted against any feed or page.
"""

from __future__ import annotations

from dataclasses import dataclass, field

FEWEST_HOSTS = 5
DOWN_SHARE = 0.8


@dataclass(slots=True)
class NetworkHealth:
    """What one run has seen of the network."""

    reached: int = 0
    lost: int = 0
    lost_hosts: set[str] = field(default_factory=set)

    def record(self, host: str, was_reached: bool) -> None:
        """Count a request that reached its host, or did not."""
        if was_reached:
            self.reached += 1
        else:
            self.lost += 1
            self.lost_hosts.add(host)

    @property
    def is_down(self) -> bool:
        """Whether at least five hosts and more than four in five requests were not reached."""
        share = self.lost / (self.lost + self.reached or 1)
        return len(self.lost_hosts) >= FEWEST_HOSTS and share > DOWN_SHARE

    @property
    def should_stop(self) -> bool:
        """Whether to stop early: no host at all has answered yet. One answer proves that the network is up."""
        return len(self.lost_hosts) >= FEWEST_HOSTS and not self.reached
