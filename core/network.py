"""Tell a dead network from dead hosts.

If nearly all hosts cannot be reached, it is we who are offline: then nothing is counted against anybody.
"""

from __future__ import annotations

from dataclasses import dataclass, field

FEWEST_HOSTS = 5
DOWN_SHARE = 0.8


@dataclass(slots=True)
class NetworkHealth:
    """What one run has seen of the network, host by host; the last word about a host counts."""

    reached: dict[str, bool] = field(default_factory=dict)

    def record(self, host: str, was_reached: bool) -> None:
        """A request to this host got through to it, or not."""
        self.reached[host] = was_reached

    @property
    def is_down(self) -> bool:
        """At least five hosts were tried and more than four in five did not answer at all."""
        lost = sum(not reached for reached in self.reached.values())
        return lost >= FEWEST_HOSTS and lost > DOWN_SHARE * len(self.reached)
