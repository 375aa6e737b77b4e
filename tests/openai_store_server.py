"""OpenAI's files and vector stores on loopback, as the real client speaks to them.

    with OpenAiStoreServer() as server:
        server.fails["broken.pdf"] = "There is no text in it."
        server.lose_answer("POST /files")
        settings = settings.model_copy(update=server.settings)
        ...
        assert server.names(store_id) == ["a.md", "b.md"]
        assert server.count("POST /files") == 2

It runs in threads of its own: tests with and without an event loop and other processes can use it. Faults are given to
requests by method and path (`*` is one part of the path), one fault per request, in order; without one the answer is
honest. The state is plain dictionaries that a test may read and change.
"""

from __future__ import annotations

import copy
import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

from core.secret_text import SecretStr

KEY = "sk-loopback-only"
MOST_PER_PAGE = 100
MOST_PER_BATCH = 2_000
MOST_PER_FILE_PAGE = 10_000
HELD = 1_000_000_000
"""So many polls never come."""


@dataclass
class GlobalFile:
    """A file in the global storage."""

    id: str
    filename: str
    content: bytes
    purpose: str
    created_at: int

    def answer(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "file",
            "bytes": len(self.content),
            "created_at": self.created_at,
            "filename": self.filename,
            "purpose": self.purpose,
            "status": "processed",
        }


@dataclass
class Attached:
    """A file of a vector store."""

    id: str
    created_at: int
    attributes: dict[str, Any]
    status: str = "in_progress"
    last_error: dict[str, str] | None = None
    polls_left: int = 1


@dataclass
class RemoteStore:
    """A vector store."""

    id: str
    name: str
    created_at: int
    metadata: dict[str, str]
    files: dict[str, Attached] = field(default_factory=dict)
    batches: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class SeenRequest:
    """What was asked for."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any
    """JSON, or of an upload its fields."""


class Refusal(Exception):
    """An answer other than 200."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers or {}


@dataclass
class Fault:
    """What happens to the next request of a kind."""

    pattern: re.Pattern[str]
    kind: str
    """`refuse`, `lose` (the work is done and the answer lost), `cut` (nothing is done), `hang` or `stall`."""
    refusal: Refusal | None = None


class OpenAiStoreServer:
    """See the top of the file."""

    def __init__(self, key: str = KEY) -> None:
        self.key = key
        self.files: dict[str, GlobalFile] = {}
        self.stores: dict[str, RemoteStore] = {}
        self.requests: list[SeenRequest] = []
        self.fails: dict[str, str] = {}
        """Reasons, by the names of files that cannot be embedded."""
        self.polls = 1
        """So often somebody has to ask before a file is embedded."""
        self.page_size = MOST_PER_PAGE
        self.is_stalling = False
        """Does a request hang?"""
        self._faults: list[Fault] = []
        self._lock = threading.RLock()
        self._numbers = 0
        self._closing = threading.Event()
        self._http: ThreadingHTTPServer | None = None

    # ── verbs ──

    def refuse(self, what: str, status: int, message: str = "No.", times: int = 1, **headers: str) -> Self:
        """The next such request gets this status; `Retry_After="1"` is the header `Retry-After`."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._fault(what, "refuse", times, Refusal(status, message, sent))

    def lose_answer(self, what: str, times: int = 1) -> Self:
        """The next such request is done, and the connection cut instead of an answer."""
        return self._fault(what, "lose", times)

    def cut(self, what: str, times: int = 1) -> Self:
        """The connection of the next such request is cut, and nothing is done."""
        return self._fault(what, "cut", times)

    def hang(self, what: str, times: int = 1) -> Self:
        """The next such request is never answered, and nothing is done."""
        return self._fault(what, "hang", times)

    def stall(self, what: str, times: int = 1) -> Self:
        """The next such request is done, and never answered."""
        return self._fault(what, "stall", times)

    def heal(self) -> None:
        """Nothing goes wrong any more."""
        with self._lock:
            self._faults.clear()
            self.is_stalling = False

    def save(self) -> object:
        """Everything that it has, for `restore`."""
        with self._lock:
            return copy.deepcopy((self.files, self.stores, self._numbers))

    def restore(self, saved: Any) -> None:
        """Make it what it was."""
        with self._lock:
            self.files, self.stores, self._numbers = copy.deepcopy(saved)

    def hold(self) -> Self:
        """Files that are attached from now on stay in progress until `release`."""
        self.polls = HELD
        return self

    def release(self) -> None:
        """Embed what waits, and from now on at the first poll."""
        with self._lock:
            self.polls = 1
            for store in self.stores.values():
                for one in store.files.values():
                    self._finish(one)

    def delete_file(self, file_id: str, *, stays_listed: bool = False) -> None:
        """Somebody deletes a file from the global storage; vector stores lose it too, at once or later."""
        with self._lock:
            self.files.pop(file_id, None)
            for store in self.stores.values():
                if not stays_listed:
                    store.files.pop(file_id, None)

    def add_file(self, store_id: str, filename: str, content: bytes = b"A stranger's.", **attributes: str) -> str:
        """Somebody else adds a file to a store."""
        with self._lock:
            one = self._new_file(filename, content, "assistants")
            self.stores[store_id].files[one.id] = Attached(one.id, self._now(), attributes, "completed")
            return one.id

    def forget_requests(self) -> None:
        self.requests.clear()

    # ── looking back ──

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of a process that may use this server."""
        return {
            "openai_base_url": self.url,
            "openai_api_key": SecretStr(self.key),
            "fetch_allowed_hosts": ("127.0.0.0/8",),
        }

    @property
    def environment(self) -> dict[str, str]:
        """The same as variables."""
        return {
            "OPENAI_BASE_URL": self.url,
            "OPENAI_API_KEY": self.key,
            "FETCH_ALLOWED_HOSTS": "127.0.0.0/8",
        }

    def count(self, what: str) -> int:
        """How often this was asked for."""
        pattern = _pattern(what)
        return sum(bool(pattern.fullmatch(f"{one.method} {one.path}")) for one in list(self.requests))

    def changes(self) -> list[str]:
        """Everything that was asked for and is no look."""
        return [f"{one.method} {one.path}" for one in self.requests if one.method != "GET"]

    def names(self, store_id: str, status: str = "completed") -> list[str]:
        """The names of the files of a store that can be found."""
        with self._lock:
            found = [one.id for one in self.stores[store_id].files.values() if one.status == status]
            return sorted(self.files[one].filename if one in self.files else one for one in found)

    def content(self, store_id: str) -> dict[str, bytes]:
        """What can be found in a store, by unique id."""
        with self._lock:
            files = self.stores[store_id].files.values()
            return {
                str(one.attributes.get("unique_id", one.id)): self.files[one.id].content
                for one in files
                if one.status == "completed" and one.id in self.files
            }

    # ── serving ──

    def __enter__(self) -> Self:
        handler = type("Handler", (_Handler,), {"server_state": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        assert self._http is not None
        self._http.shutdown()
        self._http.server_close()

    def _fault(self, what: str, kind: str, times: int, refusal: Refusal | None = None) -> Self:
        with self._lock:
            self._faults += [Fault(_pattern(what), kind, refusal) for _ in range(times)]
        return self

    def _take_fault(self, request: SeenRequest) -> Fault | None:
        with self._lock:
            for fault in self._faults:
                if fault.pattern.fullmatch(f"{request.method} {request.path}"):
                    self._faults.remove(fault)
                    return fault
        return None

    def reply(self, request: SeenRequest) -> dict[str, Any] | None:
        """Return the answer; None if the connection is to be cut. Raises Refusal."""
        with self._lock:
            self.requests.append(request)
        fault = self._take_fault(request)
        if fault and fault.kind == "hang":
            self.is_stalling = True
            self._closing.wait()
        if fault and fault.kind in ("hang", "cut"):
            return None
        if fault and fault.refusal:
            raise fault.refusal
        if request.headers.get("authorization") != f"Bearer {self.key}":
            raise Refusal(401, f"Incorrect API key provided: {request.headers.get('authorization')}")
        with self._lock:
            answer = self._dispatch(request)
        if fault and fault.kind == "stall":
            self.is_stalling = True
            self._closing.wait()
        return None if fault and fault.kind in ("lose", "stall") else answer

    def _dispatch(self, request: SeenRequest) -> dict[str, Any]:
        for what, reply in _ROUTES.items():
            found = _pattern(what).fullmatch(f"{request.method} {request.path}")
            if found:
                return reply(self, request, *found.groups())
        raise Refusal(404, f"Unknown request URL: {request.method} {request.path}")

    # ── the global storage ──

    def _create_file(self, request: SeenRequest) -> dict[str, Any]:
        fields = request.body
        if not isinstance(fields, dict) or "file" not in fields or fields.get("purpose") != "assistants":
            raise Refusal(400, "A file and its purpose are required.")
        return self._new_file(fields["filename"], fields["file"], fields["purpose"]).answer()

    def _new_file(self, filename: str, content: bytes, purpose: str) -> GlobalFile:
        one = GlobalFile(self._id("file-"), filename, content, purpose, self._now())
        self.files[one.id] = one
        return one

    def _list_files(self, request: SeenRequest) -> dict[str, Any]:
        purpose = request.query.get("purpose", "")
        found = [one for one in self.files.values() if purpose in ("", one.purpose)]
        return self._page(request, [one.answer() for one in found], MOST_PER_FILE_PAGE, MOST_PER_FILE_PAGE)

    def _get_file(self, request: SeenRequest, file_id: str) -> dict[str, Any]:
        return self._file(file_id).answer()

    def _delete_file(self, request: SeenRequest, file_id: str) -> dict[str, Any]:
        self._file(file_id)
        self.delete_file(file_id)
        return {"id": file_id, "object": "file", "deleted": True}

    def _file(self, file_id: str) -> GlobalFile:
        if file_id not in self.files:
            raise Refusal(404, f"No such File object: {file_id}")
        return self.files[file_id]

    # ── stores ──

    def _create_store(self, request: SeenRequest) -> dict[str, Any]:
        body = request.body
        store = RemoteStore(self._id("vs_"), body.get("name", ""), self._now(), body.get("metadata") or {})
        self.stores[store.id] = store
        return self._store_answer(store)

    def _list_stores(self, request: SeenRequest) -> dict[str, Any]:
        return self._page(request, [self._store_answer(one) for one in self.stores.values()], 20, MOST_PER_PAGE)

    def _get_store(self, request: SeenRequest, store_id: str) -> dict[str, Any]:
        return self._store_answer(self._store(store_id))

    def _delete_store(self, request: SeenRequest, store_id: str) -> dict[str, Any]:
        del self.stores[self._store(store_id).id]
        return {"id": store_id, "object": "vector_store.deleted", "deleted": True}

    def _store(self, store_id: str) -> RemoteStore:
        if store_id not in self.stores:
            raise Refusal(404, f"Vector store with id '{store_id}' not found.")
        return self.stores[store_id]

    def _store_answer(self, store: RemoteStore) -> dict[str, Any]:
        counts = _counts(list(store.files.values()))
        return {
            "id": store.id,
            "object": "vector_store",
            "name": store.name,
            "created_at": store.created_at,
            "status": "in_progress" if counts["in_progress"] else "completed",
            "usage_bytes": 0,
            "file_counts": counts,
            "metadata": store.metadata,
            "last_active_at": store.created_at,
        }

    # ── files of a store ──

    def _attach(self, request: SeenRequest, store_id: str) -> dict[str, Any]:
        store = self._store(store_id)
        return self._attached_answer(store, self._attach_one(store, request.body))

    def _attach_one(self, store: RemoteStore, asked: Mapping[str, Any]) -> Attached:
        self._file(asked["file_id"])
        attributes = _checked_attributes(asked.get("attributes"))
        one = Attached(asked["file_id"], self._now(), attributes, polls_left=self.polls)
        store.files[one.id] = one
        if self.polls <= 0:
            self._finish(one)
        return one

    def _list_attached(self, request: SeenRequest, store_id: str) -> dict[str, Any]:
        store = self._store(store_id)
        return self._attached_page(request, store, list(store.files.values()))

    def _attached_page(self, request: SeenRequest, store: RemoteStore, files: list[Attached]) -> dict[str, Any]:
        self._poll(store)
        wanted = request.query.get("filter", "")
        found = [self._attached_answer(store, one) for one in files if wanted in ("", one.status)]
        return self._page(request, found, 20, self.page_size)

    def _get_attached(self, request: SeenRequest, store_id: str, file_id: str) -> dict[str, Any]:
        store = self._store(store_id)
        self._poll(store)
        return self._attached_answer(store, self._one(store, file_id))

    def _update_attached(self, request: SeenRequest, store_id: str, file_id: str) -> dict[str, Any]:
        store = self._store(store_id)
        one = self._one(store, file_id)
        one.attributes = _checked_attributes(request.body.get("attributes"))
        return self._attached_answer(store, one)

    def _detach(self, request: SeenRequest, store_id: str, file_id: str) -> dict[str, Any]:
        store = self._store(store_id)
        del store.files[self._one(store, file_id).id]
        return {"id": file_id, "object": "vector_store.file.deleted", "deleted": True}

    def _one(self, store: RemoteStore, file_id: str) -> Attached:
        if file_id not in store.files:
            raise Refusal(404, f"No file found with id '{file_id}' in vector store '{store.id}'.")
        return store.files[file_id]

    def _attached_answer(self, store: RemoteStore, one: Attached) -> dict[str, Any]:
        return {
            "id": one.id,
            "object": "vector_store.file",
            "created_at": one.created_at,
            "usage_bytes": 0,
            "vector_store_id": store.id,
            "status": one.status,
            "last_error": one.last_error,
            "attributes": dict(one.attributes),
        }

    # ── batches ──

    def _create_batch(self, request: SeenRequest, store_id: str) -> dict[str, Any]:
        store, body = self._store(store_id), request.body
        asked = body.get("files") or [{"file_id": one} for one in body.get("file_ids", ())]
        if not asked or len(asked) > MOST_PER_BATCH:
            raise Refusal(400, f"A batch has 1 to {MOST_PER_BATCH} files.")
        for one in asked:
            self._file(one["file_id"])
            _checked_attributes(one.get("attributes"))
        batch_id = self._id("vsfb_")
        store.batches[batch_id] = [self._attach_one(store, one).id for one in asked]
        return self._batch_answer(store, batch_id)

    def _get_batch(self, request: SeenRequest, store_id: str, batch_id: str) -> dict[str, Any]:
        store = self._store(store_id)
        self._batch(store, batch_id)
        self._poll(store)
        return self._batch_answer(store, batch_id)

    def _cancel_batch(self, request: SeenRequest, store_id: str, batch_id: str) -> dict[str, Any]:
        store = self._store(store_id)
        for one in self._batch(store, batch_id):
            one.status = "cancelled" if one.status == "in_progress" else one.status
        return self._batch_answer(store, batch_id)

    def _list_batch(self, request: SeenRequest, store_id: str, batch_id: str) -> dict[str, Any]:
        store = self._store(store_id)
        return self._attached_page(request, store, self._batch(store, batch_id))

    def _batch(self, store: RemoteStore, batch_id: str) -> list[Attached]:
        if batch_id not in store.batches:
            raise Refusal(404, f"No batch found with id '{batch_id}'.")
        return [store.files[one] for one in store.batches[batch_id] if one in store.files]

    def _batch_answer(self, store: RemoteStore, batch_id: str) -> dict[str, Any]:
        counts = _counts(self._batch(store, batch_id))
        status = "in_progress" if counts["in_progress"] else "cancelled" if counts["cancelled"] else "completed"
        return {
            "id": batch_id,
            "object": "vector_store.files_batch",
            "created_at": store.created_at,
            "vector_store_id": store.id,
            "status": status,
            "file_counts": counts,
        }

    # ── embedding and search ──

    def _poll(self, store: RemoteStore) -> None:
        for one in store.files.values():
            one.polls_left -= 1
            if one.polls_left <= 0:
                self._finish(one)

    def _finish(self, one: Attached) -> None:
        if one.status != "in_progress":
            return
        uploaded = self.files.get(one.id)
        reason = self.fails.get(uploaded.filename, "") if uploaded else "The file was deleted."
        if uploaded and not uploaded.content:
            reason = "The file could not be parsed because it is empty."
        one.status = "failed" if reason else "completed"
        one.last_error = {"code": "invalid_file", "message": reason} if reason else None

    def _search(self, request: SeenRequest, store_id: str) -> dict[str, Any]:
        asked = request.body["query"]
        words = set(re.findall(r"\w+", (asked if isinstance(asked, str) else " ".join(asked)).lower()))
        results = []
        for one in self._store(store_id).files.values():
            uploaded = self.files.get(one.id)
            text = uploaded.content.decode(errors="replace") if uploaded and one.status == "completed" else ""
            score = len(words & set(re.findall(r"\w+", text.lower()))) / max(len(words), 1)
            if uploaded and score:
                content = [{"type": "text", "text": text}]
                results.append(
                    {"file_id": one.id, "filename": uploaded.filename, "score": score}
                    | {"attributes": one.attributes, "content": content}
                )
        results.sort(key=lambda result: -float(str(result["score"])))
        shown = results[: request.body.get("max_num_results", 10)]
        page = {"object": "vector_store.search_results.page", "search_query": [asked], "data": shown}
        return page | {"has_more": False, "next_page": None}

    # ── small ones ──

    def _page(self, request: SeenRequest, found: list[dict[str, Any]], default: int, most: int) -> dict[str, Any]:
        limit = int(request.query.get("limit", default))
        if not 1 <= limit <= most:
            raise Refusal(400, f"Invalid 'limit': expected a value of 1 to {most}, got {limit}.")
        # The numbers in ids grow, and times need not.
        found.sort(key=lambda one: _number(one["id"]), reverse=request.query.get("order", "desc") == "desc")
        after = request.query.get("after", "")
        if after:
            places = [place for place, one in enumerate(found) if one["id"] == after]
            if not places:
                raise Refusal(400, f"Invalid 'after': there is no {after}.")
            found = found[places[0] + 1 :]
        data = found[:limit]
        ends = {"first_id": data[0]["id"], "last_id": data[-1]["id"]} if data else {"first_id": None, "last_id": None}
        return {"object": "list", "data": data, **ends, "has_more": len(found) > limit}

    def _id(self, prefix: str) -> str:
        self._numbers += 1
        return f"{prefix}{self._numbers:08}"

    def _now(self) -> int:
        return int(time.time())


Route = Callable[..., dict[str, Any]]
_ROUTES: dict[str, Route] = {
    "POST /files": OpenAiStoreServer._create_file,
    "GET /files": OpenAiStoreServer._list_files,
    "GET /files/*": OpenAiStoreServer._get_file,
    "DELETE /files/*": OpenAiStoreServer._delete_file,
    "POST /vector_stores": OpenAiStoreServer._create_store,
    "GET /vector_stores": OpenAiStoreServer._list_stores,
    "GET /vector_stores/*": OpenAiStoreServer._get_store,
    "DELETE /vector_stores/*": OpenAiStoreServer._delete_store,
    "POST /vector_stores/*/search": OpenAiStoreServer._search,
    "POST /vector_stores/*/files": OpenAiStoreServer._attach,
    "GET /vector_stores/*/files": OpenAiStoreServer._list_attached,
    "GET /vector_stores/*/files/*": OpenAiStoreServer._get_attached,
    "POST /vector_stores/*/files/*": OpenAiStoreServer._update_attached,
    "DELETE /vector_stores/*/files/*": OpenAiStoreServer._detach,
    "POST /vector_stores/*/file_batches": OpenAiStoreServer._create_batch,
    "GET /vector_stores/*/file_batches/*": OpenAiStoreServer._get_batch,
    "GET /vector_stores/*/file_batches/*/files": OpenAiStoreServer._list_batch,
    "POST /vector_stores/*/file_batches/*/cancel": OpenAiStoreServer._cancel_batch,
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server_state: OpenAiStoreServer

    def do_GET(self) -> None:
        self._serve()

    do_POST = do_DELETE = do_GET

    def log_message(self, *_: object) -> None:
        pass

    def _serve(self) -> None:
        body = self._body()
        parts = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        headers = {name.lower(): value for name, value in self.headers.items()}
        path = unquote(parts.path).removeprefix("/v1")
        try:
            answer = self.server_state.reply(SeenRequest(self.command, path, query, headers, body))
        except Refusal as refusal:
            error = {"message": str(refusal), "type": "invalid_request_error", "param": None, "code": None}
            self._send(refusal.status, {"error": error}, refusal.headers)
            return
        if answer is None:
            self.close_connection = True
            self.connection.close()
            return
        self._send(200, answer, {})

    def _body(self) -> Any:
        data = self._read()
        kind = self.headers.get("Content-Type", "")
        if kind.startswith("multipart/form-data"):
            return _form(kind, data)
        return json.loads(data) if data else {}

    def _read(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        data = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return data

    def _send(self, status: int, answer: object, headers: Mapping[str, str]) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


def _form(kind: str, data: bytes) -> dict[str, Any]:
    boundary = b"--" + kind.partition("boundary=")[2].strip('"').encode()
    fields: dict[str, Any] = {}
    for part in data.split(boundary)[1:-1]:
        head, _, content = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        names = dict(re.findall(r'\b(name|filename)="([^"]*)"', head.decode()))
        content = content.removesuffix(b"\r\n")
        if "filename" in names:
            # Quotes are escaped this way in forms.
            fields |= {"filename": names["filename"].replace("%22", '"'), names["name"]: content}
        else:
            fields[names["name"]] = content.decode()
    return fields


def _pattern(what: str) -> re.Pattern[str]:
    return re.compile(re.escape(what).replace(r"\ ", " ").replace(r"\*", "([^/]+)"))


def _number(some_id: str) -> int:
    return int(re.sub(r"\D", "", some_id))


def _counts(files: list[Attached]) -> dict[str, int]:
    statuses = ("in_progress", "completed", "failed", "cancelled")
    counts = {status: sum(one.status == status for one in files) for status in statuses}
    return counts | {"total": len(files)}


def _checked_attributes(attributes: Mapping[str, Any] | None) -> dict[str, Any]:
    given = dict(attributes or {})
    is_small = len(given) <= 16 and all(len(name) <= 64 for name in given)
    if not is_small or any(isinstance(value, str) and len(value) > 512 for value in given.values()):
        raise Refusal(400, "Attributes have at most 16 pairs, names of 64 and values of 512 characters.")
    return given
