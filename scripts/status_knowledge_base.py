"""Format the state of one knowledge base as text."""

from __future__ import annotations

from core.registry import field_parsing
from core.runs.knowledge_base_state import KbState
from scripts.command_names import command
from scripts.tables import ago

MOST_URLS = 10


def kb_page(state: KbState, now: float) -> str:
    """Return all values of a state as text."""
    job, crawl, processing, metrics = state.job, state.crawl, state.processing, state.metrics
    is_paused_between = job.paused and job.status not in ("pausing", "paused")
    lines = [
        f"{state.kb_id}  {job.status}, {job.phase}, {job.progress} %{_since(state, now)}",
        *_lines("", f"⏸️ Paused; {command(f'domain resume {state.kb_id}')} goes on." if is_paused_between else ""),
        *_lines("", job.message),
        *_lines("Error: ", job.error or ""),
        "",
        f"Crawl       {crawl.pages_crawled} pages crawled, {crawl.pages_failed} of them failed; "
        f"{crawl.pages_queued} queued; {metrics.crawl_rate_pages_per_min} pages per minute",
        f"Documents   {crawl.last_doc_id} stored, {processing.last_indexed_id} indexed; "
        f"{processing.documents_saved} texts with {metrics.total_chars_ingested} characters saved",
        f"Index       {processing.chunks_total} chunks, {metrics.avg_chunks_per_doc} per document; "
        f"{processing.batches_processed} batches of {metrics.documents_per_batch} documents",
        f"From        {crawl.start_url or '–'}",
    ]
    if crawl.pending_urls:
        rest = crawl.pages_queued - min(len(crawl.pending_urls), MOST_URLS)
        lines += ["", "Queued", *(f"  {url}" for url in crawl.pending_urls[:MOST_URLS])]
        lines += [f"  and {rest} more"] if rest > 0 else []
    return "\n".join(lines)


def _lines(head: str, text: str) -> list[str]:
    return [f"{head}{text}"] if text else []


def _since(state: KbState, now: float) -> str:
    times = (("ended", state.job.completed_at), ("started", state.job.started_at), ("created", state.job.created_at))
    told = [f"{word} {ago(field_parsing.iso_timestamp(at) or 0.0, now)}" for word, at in times if at]
    saved = field_parsing.iso_timestamp(state.updated_at)
    return "".join(f"; {word}" for word in (*told[:1], f"saved {ago(saved, now)}" if saved else "never saved"))
