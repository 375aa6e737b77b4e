"""The functions that may run as jobs, and a job class that runs nothing else.

Who can write to Redis can name any function of any module in a job, and RQ would call it. So a job is checked against
the list when it is made and again when it is read. It carries JSON only: a pickle is never opened. Anybody may enqueue
a listed function with RQ's own client; how long it may run and how often it is tried again is what the list says.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, get_type_hints

import msgspec
from redis import Redis
from rq.exceptions import DeserializationError, NoSuchJobError
from rq.job import Job, Retry
from rq.serializers import JSONSerializer

from core.errors import FreshetError
from core.runtime.queue_names import QueueName
from core.value_class import value_class

log = logging.getLogger("queue")

RETRY_SECONDS = (10, 60, 300)
"""Also what a killed worker's job waits: the first of them is part of the two minutes (see `WorkerTiming`)."""
RESULT_SECONDS = 60
"""Not 0: RQ then deletes the job at its end, and a second run of it (its first worker was cut off) ends in an error."""
MOST_IDS = 2_000
"""In one job, as many as REFRESH_BATCH_ITEMS may be: all of them are leased in one step of the server."""
MOST_ARGUMENT_CHARACTERS = 1_000_000
FAILURE_SECONDS = 86_400
"""How long a failed job can be looked at. RQ's default is a year."""


@value_class
class JobSpec:
    """One function that may run."""

    queue: QueueName
    timeout_seconds: int
    retry_seconds: tuple[int, ...] = RETRY_SECONDS

    @property
    def retry(self) -> Retry:
        """Needed for every enqueue: without it RQ never again runs a job whose worker died."""
        return Retry(max=len(self.retry_seconds), interval=list(self.retry_seconds))


AllowedJobs = Mapping[str, JobSpec]

ALLOWED_JOBS: AllowedJobs = {
    "workers.jobs.refresh": JobSpec(QueueName.REFRESH, timeout_seconds=600),
    "workers.jobs.reindex": JobSpec(QueueName.REINDEX, timeout_seconds=600),
    "workers.jobs.crawl": JobSpec(QueueName.REFRESH, timeout_seconds=3_600),
    "workers.jobs.crawl_domain": JobSpec(QueueName.REFRESH, timeout_seconds=3_600),
    "workers.jobs.fetch_links": JobSpec(QueueName.REFRESH, timeout_seconds=600),
    "workers.jobs.fetch_link_batch": JobSpec(QueueName.REFRESH, timeout_seconds=600),
    "workers.jobs.rebuild": JobSpec(QueueName.REINDEX, timeout_seconds=3_600),
    "workers.embed_jobs.embed": JobSpec(QueueName.EMBED, timeout_seconds=60),
    "workers.embed_jobs.embed_run": JobSpec(QueueName.EMBED, timeout_seconds=60),
}


PICKLED = (
    "its payload is not JSON, and nothing else is opened; "
    "enqueue it with Queue(…, serializer=JSONSerializer) from rq.serializers"
)
_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def not_listed(name: str, allowed: AllowedJobs) -> str:
    """Return why a function does not run, and which ones do."""
    return f"{name[:80]!r} is not one of the functions that may run: {', '.join(sorted(allowed))}"


class JobRefused(FreshetError):
    """This job is not one of ours, or was made wrongly; it does not run."""


class AllowedJob(Job):
    """A job that only ever calls functions of the list. Made for a list by `job_class`."""

    allowed: ClassVar[AllowedJobs] = {}
    problem: str | None = None
    """Why it must not run; None: it may."""

    def __init__(self, id: str | None = None, connection: Redis | None = None, serializer: object = None) -> None:
        # Whatever the caller says: without a serializer RQ would take pickle.
        super().__init__(id, connection, JSONSerializer)

    @classmethod
    def create(cls, *args: Any, **options: Any) -> AllowedJob:
        """Create a job as RQ does; raise `JobRefused` if it could not run."""
        job = super().create(*args, **options)
        assert isinstance(job, AllowedJob)
        job.problem = job._find_problem()
        job.require_allowed()
        try:
            _ = job.data
        except (TypeError, ValueError) as error:
            raise JobRefused(f"{job.func_name}: its arguments are not JSON ({error}).") from error
        return job

    @classmethod
    def fetch(cls, id: str, connection: Redis | None = None, serializer: object = None) -> Job:
        """Fetch a job as RQ does; an id that no job can have is an id without a job, not the end of the worker."""
        try:
            return super().fetch(id, connection=connection, serializer=serializer)
        except ValueError:
            log.warning("🚫 Refused %s: no job of ours has such an id.", repr(id)[:80])
            raise NoSuchJobError(f"No such job: {id!r}") from None

    def restore(self, raw_data: Any) -> None:
        """Read what Redis has. What anybody wrote there must not end the worker: it becomes a job with a problem."""
        problem = None
        try:
            super().restore(raw_data)
        except NoSuchJobError:
            raise
        except Exception as error:  # noqa: BLE001 - a hash by a stranger's hand can break RQ's reading in any way
            problem = f"its hash cannot be read ({type(error).__name__})"
        self.problem = problem or self._find_problem()
        if self.problem:
            # Refused once and for all: nothing of it is called when it fails, and it does not come again.
            self._success_callback_name = self._failure_callback_name = self._stopped_callback_name = None
            self.webhooks = []
            self.retries_left = self.repeats_left = None
            self.failure_ttl = FAILURE_SECONDS
        else:
            self._apply_spec(self.allowed[str(self.func_name)])

    def _apply_spec(self, spec: JobSpec) -> None:
        """Whatever whoever enqueued it wrote: a job runs as long and comes again as often as the list says."""
        self.timeout = spec.timeout_seconds
        if self.retries_left is None:  # without retries RQ never again runs a job whose worker died
            self.retries_left, self.retry_intervals = len(spec.retry_seconds), list(spec.retry_seconds)
        self.retries_left = min(self.retries_left, len(spec.retry_seconds))
        self.failure_ttl = FAILURE_SECONDS
        if self.result_ttl is not None:
            seconds = FAILURE_SECONDS if self.result_ttl < 0 else self.result_ttl  # below 0: for ever
            self.result_ttl = min(max(seconds, RESULT_SECONDS), FAILURE_SECONDS)

    @property
    def func(self) -> Any:
        """The function itself: the one way to it leads past the list."""
        self.require_allowed()
        return super().func

    def perform(self) -> Any:
        """Run it. What is refused would be refused again, so it is not retried."""
        try:
            self._check_arguments()
            return super().perform()
        except JobRefused:
            self.retries_left = None
            raise

    def _check_arguments(self) -> None:
        """Compare the arguments with the function's own types; raise JobRefused."""
        function, signature = self.func, inspect.signature(self.func)
        try:
            given = signature.bind(*self.args, **self.kwargs).arguments
            hints = get_type_hints(function)
            for name, value in given.items():
                problem = "" if signature.parameters[name].kind in _VARIABLE else _mismatch(value, hints[name])
                if problem:
                    reason = f"{name}: {problem}"
                    break
            else:
                return
        except TypeError as error:
            reason = str(error)
        shown = str(signature).partition(" ->")[0].replace("'", "")
        raise JobRefused(f"Refused job {self.id}: wrong arguments ({reason}). It is {self.func_name}{shown}.")

    def require_allowed(self) -> None:
        """Raise `JobRefused` unless it may run."""
        if self.problem:
            raise JobRefused(f"Refused job {self.id}: {self.problem}.")

    def _find_problem(self) -> str | None:
        try:
            name, instance, args, kwargs = self.func_name, self.instance, self.args, self.kwargs
        except DeserializationError:
            return PICKLED
        if not isinstance(name, str) or name not in self.allowed:
            return not_listed(str(name), self.allowed)
        if instance is not None:
            return f"it calls {name} on an object, and only plain functions may run"
        if not isinstance(args, list | tuple) or not isinstance(kwargs, dict):
            return f"its arguments for {name} are no arguments"
        if self.repeats_left:
            return "it wants to repeat itself; leave `repeat` out, the timer sends what is due again"
        # A callback is a function too, and a webhook a request to any address.
        if self._success_callback_name or self._failure_callback_name or self._stopped_callback_name or self.webhooks:
            return "it brings callbacks or webhooks; enqueue it without them, and look at the job's status instead"
        return _excess([*args, *kwargs.values()])


def _mismatch(value: object, kind: Any) -> str:
    """Return why a value is not of this type; empty if it is, or can be read as one."""
    try:
        msgspec.convert(value, kind)
        return ""
    except (msgspec.ValidationError, TypeError):
        # Here: a process that only ever meets its own jobs starts 50 ms sooner without pydantic.
        from pydantic import TypeAdapter, ValidationError

        try:
            TypeAdapter(kind).validate_python(value)
        except ValidationError as error:
            return str(error.errors()[0]["msg"])
        return ""


def _excess(values: Sequence[Any]) -> str | None:
    most = max((len(value) for value in (values, *values) if isinstance(value, list | dict)), default=0)
    if most > MOST_IDS:
        return f"it brings {most:,} ids, and a job has at most {MOST_IDS:,}; send them in several jobs"
    if len(repr(values)) > MOST_ARGUMENT_CHARACTERS:
        return f"its arguments are longer than {MOST_ARGUMENT_CHARACTERS:,} characters"
    return None


def job_class(allowed: AllowedJobs) -> type[AllowedJob]:
    """Return the job class for this list."""
    return type("AllowedJob", (AllowedJob,), {"allowed": allowed, "__doc__": AllowedJob.__doc__})
