"""File identity: one normal form for every way to write a path, and no secret in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import ids
from core.registry.blank_record import blank_record, partition
from core.urls.file_paths import file_identity

BLOB = "https://acct.blob.core.windows.net/docs/Plans/Q1.pdf"
SAS = "sv=2024-05-04&se=2030-01-01&sr=b&sp=r&sig=c2VjcmV0c2VjcmV0%3D"

PATHS = [
    ("posix", "/a/b.md", "file", "/a/b.md"),
    ("posix keeps capitals", "/A/B.md", "file", "/A/B.md"),
    ("posix dots", "/a/./c/../b.md", "file", "/a/b.md"),
    ("posix above the root", "/../../a.md", "file", "/a.md"),
    ("posix slashes", "/a//b///c/", "file", "/a/b/c"),
    ("posix three slashes in front", "///a/b", "file", "/a/b"),
    ("posix backslash is a letter", "/a\\b.md", "file", "/a\\b.md"),
    ("posix percent is a letter", "/a/%41.md", "file", "/a/%41.md"),
    ("posix spaces and newlines", "/a/ b\n.md ", "file", "/a/ b\n.md "),
    ("posix root", "/", "file", "/"),
    ("posix bytes that are no UTF-8", "/a/\udcff.md", "file", "/a/\udcff.md"),
    ("windows", "C:\\Dir\\File.TXT", "file", "c:/dir/file.txt"),
    ("windows slashes", "c:/dir//file.txt", "file", "c:/dir/file.txt"),
    ("windows dots", "C:\\Dir\\..\\x\\.\\File.TXT\\", "file", "c:/x/file.txt"),
    ("windows root", "D:\\", "file", "d:/"),
    ("windows long form", "\\\\?\\C:\\Dir\\File.TXT", "file", "c:/dir/file.txt"),
    ("windows device name", "C:\\Dir\\CON", "file", "c:/dir/con"),
    ("share", "\\\\Server\\Share\\X.md", "share", "//server/share/x.md"),
    ("share with slashes", "//server/share//a/../x.md", "share", "//server/share/x.md"),
    ("share, no way out of it", "//server/share/../../x.md", "share", "//server/share/x.md"),
    ("share long form", "\\\\?\\UNC\\server\\share\\x.md", "share", "//server/share/x.md"),
    ("uri posix", "file:///a/b%20c.md", "file", "/a/b c.md"),
    ("uri one slash", "file:/a/b.md", "file", "/a/b.md"),
    ("uri localhost", "FILE://localhost/a/b.md", "file", "/a/b.md"),
    ("uri windows", "file:///C:/Dir/x.txt", "file", "c:/dir/x.txt"),
    ("uri windows, encoded colon stays a name", "file:///C%3A/x.txt", "file", "/C:/x.txt"),
    ("uri share", "file://Server/Share/x.txt", "share", "//server/share/x.txt"),
    ("uri encoded dots", "file:///a/%2e%2e/b.md", "file", "/b.md"),
    ("uri bytes that are no UTF-8", "file:///a/%ff.md", "file", "/a/\udcff.md"),
    ("uri query and fragment", "file:///a/b.md?x=1#y", "file", "/a/b.md"),
    ("blob", BLOB, "blob", BLOB),
    ("blob with SAS", f"{BLOB}?{SAS}", "blob", BLOB),
    ("blob host in capitals", "HTTPS://ACCT.blob.core.windows.net:443/docs/Plans/Q1.pdf", "blob", BLOB),
    ("blob over http", f"http{BLOB[5:]}", "blob", BLOB),
    ("blob slashes", "https://acct.blob.core.windows.net//docs/Plans//Q1.pdf/", "blob", BLOB),
    ("blob encoded slash", "https://acct.blob.core.windows.net/docs/Plans%2fQ1.pdf", "blob", BLOB),
    ("blob dots", "https://acct.blob.core.windows.net/docs/x/../Plans/Q1.pdf", "blob", BLOB),
    (
        "blob of another cloud",
        "https://a.blob.core.chinacloudapi.cn/c/x",
        "blob",
        "https://a.blob.core.chinacloudapi.cn/c/x",
    ),
]


@pytest.mark.parametrize(("name", "source", "kind", "normalised"), PATHS, ids=[row[0] for row in PATHS])
def test_paths_have_one_form(name: str, source: str, kind: str, normalised: str) -> None:
    """Every way to write a path gives its one normal form, whose partition in the registry is its kind."""
    identity = file_identity(source)

    assert (identity.kind, identity.normalised) == (kind, normalised)
    assert partition(identity.normalised, "file", "host") == kind
    assert file_identity(identity.address).normalised == normalised
    assert file_identity(identity.normalised).normalised == normalised


def test_display_keeps_capitals() -> None:
    """People see the path as it is written on disk; only identity ignores case on Windows."""
    assert file_identity("c:\\Dir\\File.TXT").display == "C:/Dir/File.TXT"
    assert file_identity("\\\\SERVER\\Share\\File.TXT").display == "//server/Share/File.TXT"


REFUSED = [
    *("", "a/b.md", "./a", "../a", "..%2f..%2fescape.txt", "~/a", "C:a.txt", "C:", "\\dir\\a.txt", "CON"),
    *("/a\0b", "file:///a%00b", "file:a/b", "file:///a/..%2f..%2fetc/passwd", "file:///C:/a%5C..%5Cb"),
    *("file://user:pw@server/share/x", "//server", "//server/", "\\\\.\\pipe\\x", "//?/x", "C:\\a.txt:hidden"),
    *("https://example.org/a", "https://acct.blob.core.windows.net/", "https://acct.blob.core.evil.example/c/x"),
    *("https://acct.blob.core.windows.net@evil.example/c/x", "https://user:pw@acct.blob.core.windows.net/c/x"),
    *("https://acct.blob.core.windows.net:8443/c/x", "https://acct.blob.core.windows.net.evil.example/c/x"),
    *("https:", "http://", "https://acct.blob.core.windows.net/c/\n/x", "ftp://example.org/x"),
]


@pytest.mark.parametrize("source", REFUSED)
def test_what_names_no_file_is_refused(source: str) -> None:
    """Relative paths, NUL, tricks with encodings and strangers' hosts are refused with a sentence."""
    with pytest.raises(ValueError, match=r"^.{10,}$"):
        file_identity(source)


SECRETS = [
    f"{BLOB}?{SAS}",
    f"{BLOB}#{SAS}",
    f"{BLOB}?{SAS}#{SAS}",
    f"{BLOB}%3F{SAS}",
    f"{BLOB}%3Fsig%3Dc2VjcmV0c2VjcmV0",
    f"https://acct.blob.core.windows.net/?{SAS}",
    f"https://example.org/x?{SAS}",
    f"https://acct.blob.core.windows.net?{SAS}",
    f"https://u:c2VjcmV0c2VjcmV0@acct.blob.core.windows.net/c/x?{SAS}",
    f"file:///a/b.md?{SAS}",
    f"https://acct.blob.core.windows.net/c/{'x' * 3_000}?{SAS}",
]


@pytest.mark.parametrize("source", SECRETS)
def test_no_sas_comes_out(source: str) -> None:
    """Neither an identity nor an error nor a registry record holds anything of a SAS."""
    try:
        identity = file_identity(source)
        shown = repr(identity) + json.dumps(blank_record(identity.normalised, identity.address, 0.0, item_type="file"))
    except ValueError as error:
        shown = str(error)

    assert not any(part in shown for part in ("c2VjcmV0", "2024-05-04", "2030-01-01", "sp=r"))


def test_ids_follow_the_normal_form() -> None:
    """The same Windows file written twice is one item."""
    one, other = (file_identity(path).normalised for path in ("C:\\A\\b.MD", "file:///c:/a/B.md"))

    assert ids.item_id("file", one) == ids.item_id("file", other)


# ── properties ──────────────────────────────────────────────────────────────────────────────────

_NAME = st.text(st.characters(blacklist_characters="/\\:\0", blacklist_categories=["Cs"]), min_size=1, max_size=8)
_NAMES = st.lists(_NAME, min_size=1, max_size=5)
_ASCII = st.lists(st.text("abcXYZ01 ._-", min_size=1, max_size=6), min_size=1, max_size=5)


@given(st.text(max_size=60))
def test_any_text_is_an_identity_or_a_sentence(text: str) -> None:
    """No text makes it fail in another way; what has an identity has it for ever."""
    try:
        identity = file_identity(text)
    except ValueError:
        return

    assert file_identity(identity.normalised).normalised == identity.normalised


@given(_NAMES, st.integers(1, 3), st.booleans())
def test_posix_slashes_do_not_matter(names: list[str], slashes: int, is_folder: bool) -> None:
    """Repeated, dotted and trailing slashes name the same file."""
    plain = file_identity("/" + "/".join(names))
    other = file_identity("///" + ("/" * slashes + "./").join(names) + "/" * is_folder)

    assert plain == other


@given(_ASCII)
def test_windows_separators_and_case_do_not_matter(names: list[str]) -> None:
    """Back or forward, large or small: one Windows file."""
    forms = [
        "c:/" + "/".join(names),
        "C:\\" + "\\".join(names).upper(),
        "file:///C:/" + "//".join(names).replace("#", ""),
    ]

    assert len({file_identity(form).normalised for form in forms}) == 1


@given(_ASCII)
def test_share_separators_and_case_do_not_matter(names: list[str]) -> None:
    """The same for shares."""
    forms = ["//srv/pub/" + "/".join(names), "\\\\SRV\\PUB\\" + "\\".join(names).upper()]

    assert len({file_identity(form).normalised for form in forms}) == 1


@given(st.permutations(SAS.split("&")))
def test_the_order_of_a_sas_does_not_matter(pairs: list[str]) -> None:
    """A new SAS, in whatever order, is the same blob."""
    assert file_identity(f"{BLOB}?{'&'.join(pairs)}") == file_identity(BLOB)


@given(_NAMES)
def test_uris_round_trip(names: list[str]) -> None:
    """A path and the file: URI that Python writes for it are one file."""
    path = Path("/") / Path(*names)

    assert file_identity(path.as_uri()) == file_identity(str(path))
