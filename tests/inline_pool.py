"""A parse pool without processes."""

from __future__ import annotations

from typing import Any, Self

import msgspec

from core.errors import FailCode, FailDetail
from core.models import Failed
from core.runtime import parse_tasks


class InlinePool:
    """Reads pages in this process; results go through the wire format all the same.

    Most tests are not about parse children, and starting one takes half a second of CPU.
    """

    async def run(self, task: str, request: object) -> Any:
        spec = parse_tasks.TASKS[task]
        try:
            return msgspec.msgpack.decode(msgspec.msgpack.encode(spec.run(request)), type=spec.result)
        except spec.refusals as error:
            return Failed(FailCode.PARSE, FailDetail.TYPE, str(error))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass
