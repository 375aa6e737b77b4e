"""The language model, unpacked once for all processes or by each for itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.pages.language_model import PACKED, load_identifier, unpacked_folder
from core.runtime.unpack_language_model import unpack

TEXTS = ["Nesta página você terá sempre a classificação", "Die Mühle am Fluss", "日本語のページです", "x = 1;", ""]


def test_the_unpacked_model_is_the_same(tmp_path: Path) -> None:
    """Mapped arrays give the same languages as the package's own file; those of another model are removed."""
    folder, other = tmp_path / "unpacked-2", tmp_path / "unpacked-1"
    other.mkdir()
    unpack(folder)
    written = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    unpack(folder)

    mapped, packed = load_identifier(folder), load_identifier(tmp_path / "none")
    assert [mapped.classify(text) for text in TEXTS] == [packed.classify(text) for text in TEXTS]
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == written
    assert list(folder.parent.iterdir()) == [folder]


def test_a_killed_set_up_leaves_no_half_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What breaks off while it unpacks leaves no folder: processes go on with the package's own file."""
    monkeypatch.setattr("core.runtime.unpack_language_model.ARRAYS", ("ptc", "not there"))
    with pytest.raises(KeyError):
        unpack(tmp_path / "model")

    assert not (tmp_path / "model").exists()


def test_the_folder_belongs_to_the_model() -> None:
    """It is beside the model, and another model has another one."""
    folder = unpacked_folder()

    assert folder.parent == PACKED.parent
    assert str(PACKED.stat().st_size) in folder.name
