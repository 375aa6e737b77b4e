"""The tables of a crawl at the command line."""

from __future__ import annotations

import pytest

from core.outputs.vector_store.crawl_report import CrawledSource
from core.runs.run import Run, RunKind, RunStatus
from scripts.domain_results import show_results


def test_files_in_the_failed_folder_are_in_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Also those of earlier runs, beside what this one did; other steps have none."""
    statistics = {"download": {"unchanged": 3, "failed": 0}, "embed": {"unchanged": 2, "in_failed_folder": 1}}
    run = Run("r1", RunKind.CRAWL, RunStatus.SUCCEEDED, statistics=statistics)
    show_results([CrawledSource("d.docs", "file", run)])

    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    [head] = [line for line in lines if line[1:2] == ["STEP"]]
    ends = {line[1]: line[-1] for line in lines if line[:1] == ["d.docs"] and line[1] in ("download", "embed")}
    assert (head[-2:], ends) == (["IN", "03_FAILED"], {"download": "–", "embed": "1"})
