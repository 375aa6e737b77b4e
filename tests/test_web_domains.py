"""Domains over HTTP: add, change, look, remove; and folders that HTTP may not name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.keys import Keys
from core.settings import Settings
from core.sources.io.domain_file import parse_domain
from core.sources.io.domain_setup import add_domain
from core.sources.io.source_store import SourceStore
from core.store.connect import Client
from tests.api import ApiServer, api_server

SITE = {"id": "site", "url": "https://docs.example.org/guide/"}


def domain(**more: Any) -> dict[str, Any]:
    return {"id": "docs", "name": "The docs", "web_sources": [SITE], **more}


async def test_add_look_change_and_remove(api: ApiServer, redis: Client, keys: Keys) -> None:
    """A domain.json over HTTP; a change drops sources that it no longer names; a dry run removes nothing."""
    other = {"id": "blog", "url": "https://blog.example.org/"}
    added = await api.post("/v2/domains", json=domain(web_sources=[SITE, other]))
    twice = await api.post("/v2/domains", json=domain())
    listed = await api.get("/v2/domains")
    body = {name: value for name, value in domain(description="All of it").items() if name != "id"}
    changed = await api.ask("PUT", "/v2/domains/docs", json=body)
    one = await api.get("/v2/domains/docs")
    report = await api.get("/v2/domains/docs/report")
    preview = await api.ask("DELETE", "/v2/domains/docs?dry_run=true")
    still = await redis.smembers(keys.sources)
    removed = await api.ask("DELETE", "/v2/domains/docs")

    assert (added.status, added.json["is_new"]) == (200, True), added.text
    assert added.json["sources"] == ["docs.site", "docs.blog"]
    assert (twice.status, twice.error["hint"]) == (409, "PUT /v2/domains/docs changes it.")
    assert [source["location"] for source in listed.json["domains"][0]["sources"]] == [SITE["url"], other["url"]]
    assert (changed.json["is_new"], list(changed.json["removed"])) == (False, ["docs.blog"])
    assert (one.json["domain"]["description"], one.json["config"]["web_sources"][0]["url"]) == (
        "All of it",
        SITE["url"],
    )
    assert (report.status, report.json["id"]) == (200, "docs")
    assert preview.json["removed"]["sources"] == removed.json["removed"]["sources"] == 1
    assert still == {"docs.site"}
    assert await redis.exists(keys.domain("docs"), keys.source("docs.site")) == 0
    assert (await api.get("/v2/domains/docs")).status == 404


async def test_folders_of_http_are_below_the_roots(
    settings: Settings, redis: Client, keys: Keys, tmp_path: Path
) -> None:
    """One below FOLDER_ROOTS is taken without a signature; one elsewhere is refused and nothing is stored."""
    roots, elsewhere = tmp_path / "shared", tmp_path / "private"
    roots.mkdir()
    elsewhere.mkdir()
    async with api_server(settings.model_copy(update={"folder_roots": (str(roots),)})) as api:
        refused = await api.post("/v2/domains", json=folder_domain(elsewhere))
        stored = await redis.exists(keys.domain("papers"), keys.source("papers.shelf"))
        taken = await api.post("/v2/domains", json=folder_domain(roots))

    assert (refused.status, stored) == (422, 0)
    assert "may not be read: it is not below FOLDER_ROOTS" in refused.error["message"]
    assert taken.status == 200, taken.text
    state = await SourceStore(redis, keys).read("papers.shelf")
    assert state is not None
    assert state.record.signature == ""


async def test_signed_folder_stays_signed(settings: Settings, redis: Client, keys: Keys, tmp_path: Path) -> None:
    """HTTP may change the rest of a domain whose folder a person's own command added, but not where it points."""
    narrow = settings.model_copy(update={"folder_roots": ()})
    folder, other = tmp_path / "private", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    await add_domain(narrow, redis, keys, parse_domain(json.dumps(folder_domain(folder)), "/"))
    before = await SourceStore(redis, keys).read("papers.shelf")
    async with api_server(narrow) as api:
        renamed = await api.ask("PUT", "/v2/domains/papers", json=_body(folder_domain(folder)) | {"name": "Papers"})
        moved = await api.ask("PUT", "/v2/domains/papers", json=_body(folder_domain(other)))
    after = await SourceStore(redis, keys).read("papers.shelf")

    assert (renamed.status, moved.status) == (200, 422), renamed.text
    assert before is not None
    assert after is not None
    assert after.record == before.record
    assert after.record.signature


def folder_domain(folder: Path) -> dict[str, Any]:
    return {"id": "papers", "folder_sources": [{"id": "shelf", "path": str(folder)}]}


def _body(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name != "id"}


@pytest.mark.parametrize(
    ("body", "status", "part"),
    [
        ({"id": "docs"}, 422, "This domain has no sources"),
        ({"web_sources": [SITE]}, 422, "id: Field required"),
        ({"id": "No Name", "web_sources": [SITE]}, 422, "id"),
        (domain(web_sources=[{"url": "ftp://e.org"}]), 422, "web_sources[0].url"),
        (domain(web_sources=[{"url": "https://e.org", "nonsense": 1}]), 422, "web_sources[0].nonsense"),
        (domain(web_sources=[{"url": "https://e.org", "max_pages": "1"}]), 422, "web_sources[0].max_pages"),
        (domain(web_sources="https://e.org"), 422, "web_sources"),
        (domain(file_sources=[{"a": 1}]), 422, "file_sources[0].site_url: is missing (and 2 more)"),
        (
            domain(file_sources=[{"site_url": "http://e.org/", "sharepoint_url_part": "/Docs"}]),
            422,
            "file_sources[0].site_url: begins with https://",
        ),
        (domain(nonsense=1), 422, "There is no parameter nonsense."),
    ],
)
async def test_bad_domains_are_sentences(api: ApiServer, redis: Client, body: dict, status: int, part: str) -> None:
    """Each answers 4xx, says where it is wrong, and stores nothing."""
    answer = await api.post("/v2/domains", json=body)

    assert answer.status == status, answer.text
    assert part in answer.error["message"]
    assert [key async for key in redis.scan_iter() if not key.startswith("freshet:")] == []


async def test_files_are_taken_up(api: ApiServer, settings: Settings) -> None:
    """A domain.json in its folder is there for every route; PUT writes it; a bad one is a sentence in the list."""
    folder = settings.persistent_storage_path / "domains"
    for name, text in (("DOMAIN01", json.dumps({"web_sources": [SITE]})), ("bad", "{")):
        (folder / name).mkdir(parents=True)
        (folder / name / "domain.json").write_text(text)
    state = await api.get("/v2/domains/DOMAIN01/state")
    listed = await api.get("/v2/domains")
    bad = await api.get("/v2/domains/bad")
    body = {"web_sources": [SITE], "index": "openai", "vector_store_name": "store", "vector_store_id": "vs_1"}
    changed = await api.ask("PUT", "/v2/domains/DOMAIN01", json=body)
    one = await api.get("/v2/domains/DOMAIN01")

    assert state.json["kb_id"] == "DOMAIN01", state.text
    assert [one["id"] for one in listed.json["domains"]] == ["DOMAIN01"]
    assert [problem.partition(": ")[2][:16] for problem in listed.json["problems"]] == ["This is not JSON"]
    assert (bad.status, changed.status) == (422, 200), changed.text
    assert (one.json["config"]["index"], one.json["config"]["vector_store_id"]) == ("openai", "vs_1")
    assert json.loads((folder / "DOMAIN01" / "domain.json").read_text()) == body | {"name": "DOMAIN01"}


async def test_unknown_domain(api: ApiServer) -> None:
    """404 for every verb."""
    for method, path in (("GET", ""), ("DELETE", ""), ("DELETE", "?dry_run=true"), ("GET", "/report")):
        answer = await api.ask(method, f"/v2/domains/nothing{path}")

        assert (answer.status, answer.error["code"]) == (404, "not_found"), (method, answer.text)
