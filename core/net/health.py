"""Tell a dead network from dead hosts.

If nearly all requests do not even reach a host, it is we who are offline: then nothing is counted against anybody.
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
        """A request got through to this host, or not."""
        if was_reached:
            self.reached += 1
        else:
            self.lost += 1
            self.lost_hosts.add(host)

    @property
    def is_down(self) -> bool:
        """Looking back: at least five hosts and more than four in five requests were lost."""
        share = self.lost / (self.lost + self.reached or 1)
        return len(self.lost_hosts) >= FEWEST_HOSTS and share > DOWN_SHARE

    @property
    def should_stop(self) -> bool:
        """In the middle of it: nobody at all has answered yet. One answer proves that the network is there."""
        return len(self.lost_hosts) >= FEWEST_HOSTS and not self.reached
