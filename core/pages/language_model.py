"""Load py3langid's model: from the arrays that the set-up has unpacked, else from the package.

Unpacking takes 0.6 CPU seconds and 116 MB in every process. Unpacked, the arrays are mapped into memory, shared by all
processes, and only the pages that a text needs are read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from py3langid.langid import MODEL_DIR, MODEL_FILE, LanguageIdentifier

PACKED = Path(MODEL_DIR, MODEL_FILE)
ARRAYS = ("ptc", "pc", "classes", "nextmove", "nextmove_row", "out_feat")
"""As py3langid's model file names them."""


def unpacked_folder() -> Path:
    """Return where the arrays of the installed model are, if they were unpacked; another model has another length."""
    return PACKED.with_name(f"unpacked-{PACKED.stat().st_size}")


def load_identifier(folder: Path) -> LanguageIdentifier:
    """Return the identifier with probabilities, from the arrays in this folder if it is there."""
    if not folder.is_dir():
        return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    table, priors, classes, moves, rows, features = (_array(folder, name) for name in ARRAYS)
    # Single steps through the automaton: a memory view gives plain integers, which is quicker than NumPy's own.
    steps = (memoryview(moves), memoryview(features))
    return LanguageIdentifier(table, priors, classes.tolist(), *steps, norm_probs=True, tk_row=memoryview(rows))


def _array(folder: Path, name: str) -> Any:
    return np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False))
