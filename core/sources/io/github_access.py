"""Requests to GitHub: authentication, rate limits, and its refusals as sentences.

The token goes to the API and to raw files, nowhere else: the fetcher drops it where a redirect leaves the origin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from core.errors import FailCode, FailDetail
from core.models import Deferred, Failed, Fetched, FetchRequest, FetchResult
from core.settings import Settings
from core.sources import github_responses
from core.sources.github_names import Repository

if TYPE_CHECKING:
    from core.net.fetcher import BodySlot, Fetcher

JSON = "application/vnd.github+json"
SHA = "application/vnd.github.sha"
"""The answer is the commit's sha and nothing else."""
RAW = "application/vnd.github.raw+json"
API_VERSION = "2022-11-28"
LIMIT_REASON = "GitHub's rate limit"
MAX_WAIT_SECONDS = 5.0
"""Longer than this we do not sit at a shut gate: the work comes back later."""


class GithubClient:
    def __init__(self, settings: Settings, fetcher: Fetcher, repo: Repository, clock: Callable[[], float]) -> None:
        self._token = settings.github_token
        self._fetcher = fetcher
        self._repo = repo
        self._clock = clock

    async def get(
        self,
        url: str,
        *,
        accept: str = JSON,
        conditional: Mapping[str, str] | None = None,
        conditional_url: str = "",
        max_bytes: int | None = None,
        slot: BodySlot | None = None,
    ) -> FetchResult:
        """Return the answer; `Deferred` while GitHub wants to be left alone, `Failed` where it does not let us in."""
        token = self._token.get_secret_value().strip() if self._token else ""
        headers = {"Accept": accept, "X-GitHub-Api-Version": API_VERSION}
        request = FetchRequest(
            url,
            headers=headers | {"Authorization": f"Bearer {token}"} if token else headers,
            conditional=conditional or {},
            conditional_url=conditional_url,
            max_bytes=max_bytes,
            respect_robots=False,
            max_wait_seconds=MAX_WAIT_SECONDS,
            is_api=True,
        )
        answer = await self._fetcher.fetch(request, slot)
        if not isinstance(answer, Fetched):
            return answer
        wait = github_responses.limit_seconds(answer.status, answer.headers, answer.body, self._clock())
        if wait:
            await self._fetcher.hold_off(answer.final_url, wait, LIMIT_REASON)
            if answer.status in github_responses.LIMIT_STATUSES:
                return Deferred(wait, LIMIT_REASON)
        return self.denial(answer.status) if answer.status in (401, 403) else answer

    def denial(self, status: int) -> Failed:
        """Return why we are not let in, and what a person can do."""
        question = (
            "is the name right, and may the token in GITHUB_TOKEN read it?"
            if self._token
            else "is the name right? A private repository needs GITHUB_TOKEN."
        )
        if status == 401:
            question = "the token in GITHUB_TOKEN is not accepted."
        text = f"GitHub says {status} for {self._repo.full_name}: {question}"
        # 403 for all of them, what we may not read: a failure with 404 could be taken for a file that is gone.
        return Failed(FailCode.HTTP, FailDetail.STATUS, text, 403)
