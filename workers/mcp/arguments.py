"""Read the arguments of a tool into its model: every mistake is a sentence that names the argument."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from workers.web.errors import ApiError, nearest
from workers.web.parameters import field_names, problem_sentences

R = TypeVar("R", bound=BaseModel)


def read_arguments(tool: str, model: type[R], arguments: Mapping[str, Any]) -> R:
    """Return the arguments; raise ApiError. Null is the same as leaving out, and `"5"` is 5: models write both."""
    given = {name: value for name, value in arguments.items() if value is not None}
    known = field_names(model)
    if unknown := [name for name in given if name not in known]:
        raise ApiError(
            422, "unknown_argument", f"{tool} has no argument {unknown[0][:80]}.", nearest(unknown[0], known)
        )
    try:
        return model.model_validate_json(json.dumps(given), strict=False)
    except ValidationError as error:
        sentences = "; ".join(problem_sentences(error.errors()))[:1000]
        hint = f"Arguments of {tool}: {', '.join(known)}."
        raise ApiError(422, "invalid", f"{sentences}.", hint) from None
