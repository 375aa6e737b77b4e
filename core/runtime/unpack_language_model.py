"""Unpack the language model once, for all processes: `python -m core.runtime.unpack_language_model`, by the set-up.

Without it everything works; each process then unpacks the model for itself, when it meets a page that needs it.
"""

from __future__ import annotations

import lzma
import shutil
import tempfile
from pathlib import Path

import numpy as np

from core.pages.language_model import ARRAYS, PACKED, unpacked_folder


def unpack(folder: Path) -> None:
    """Write the arrays of the model to this folder, which appears whole or not at all; those of another model go."""
    if folder.is_dir():
        return
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        made = Path(name, folder.name)
        made.mkdir()
        with lzma.open(PACKED) as packed, np.load(packed, allow_pickle=False) as arrays:
            for array in ARRAYS:
                np.save(made / f"{array}.npy", arrays[array], allow_pickle=False)
        for old in folder.parent.glob("unpacked-*"):
            shutil.rmtree(old)
        made.rename(folder)


if __name__ == "__main__":
    unpack(unpacked_folder())
