"""A progress bar on a terminal; nothing anywhere else."""

from __future__ import annotations

import sys
from typing import NoReturn, TypeAlias

from tqdm import tqdm

Bar: TypeAlias = "tqdm[NoReturn]"


def bar(total: int, what: str) -> Bar:
    """A bar that counts to `total`; silent when nobody watches."""
    return tqdm(total=total, desc=what, unit="", disable=not sys.stderr.isatty(), leave=False, dynamic_ncols=True)
