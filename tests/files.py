"""Files for tests, made here: the smallest PDF and DOCX that say something."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence

_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
DOCX_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


# ── PDF ─────────────────────────────────────────────────────────────────────────────────────────


def pdf(*pages: Sequence[str], info: str = "", kids: str = "") -> bytes:
    """A PDF with these lines on its pages; `kids` replaces the list of pages in its tree."""
    first = 4
    references = [f"{first + 2 * number} 0 R" for number in range(len(pages))]
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids or ' '.join(references)}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    for number, lines in enumerate(pages):
        shown = "".join(f"({_escaped(text)}) Tj 0 -14 Td " for text in lines)
        stream = f"BT /F1 12 Tf 72 720 Td {shown}ET"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {first + 2 * number + 1} 0 R"
            " /Resources << /Font << /F1 3 0 R >> >> >>"
        )
        objects.append(f"<< /Length {len(stream.encode('cp1252'))} >>\nstream\n{stream}\nendstream")
    if info:
        objects.append(f"<< {info} >>")
    return _pdf_file(objects, has_info=bool(info))


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")


def _pdf_file(objects: list[str], has_info: bool) -> bytes:
    body, offsets = b"%PDF-1.4\n", []
    for number, text in enumerate(objects, 1):
        offsets.append(len(body))
        body += f"{number} 0 obj\n{text}\nendobj\n".encode("cp1252")
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    info = f" /Info {len(objects)} 0 R" if has_info else ""
    return (
        body
        + (
            f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
            f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R{info} >>\nstartxref\n{len(body)}\n%%EOF\n"
        ).encode()
    )


# ── DOCX ────────────────────────────────────────────────────────────────────────────────────────


def paragraph(text: str, style: str = "") -> str:
    named = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f'<w:p>{named}<w:r><w:t xml:space="preserve">{text}</w:t></w:r></w:p>'


def item(text: str) -> str:
    numbered = '<w:pPr><w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr></w:pPr>'
    return f"<w:p>{numbered}<w:r><w:t>{text}</w:t></w:r></w:p>"


def table(*rows: Sequence[str]) -> str:
    cells = ("".join(f"<w:tc>{paragraph(text)}</w:tc>" for text in row) for row in rows)
    return f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in cells)}</w:tbl>"


def docx(body: str, more: Mapping[str, str | bytes] | None = None, declaration: str = "") -> bytes:
    """A DOCX around this XML; `more` adds or replaces members."""
    members: dict[str, str | bytes] = {
        "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/>'
        f'<Override PartName="/word/document.xml" ContentType="{DOCX_TYPE}.main+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}">'
        f'<Relationship Id="r1" Type="{_OFFICE}/officeDocument" Target="word/document.xml"/></Relationships>',
        "word/_rels/document.xml.rels": f'<Relationships xmlns="{_PACKAGE}">'
        f'<Relationship Id="r1" Type="{_OFFICE}/numbering" Target="numbering.xml"/></Relationships>',
        "word/numbering.xml": f'<w:numbering {_W}><w:abstractNum w:abstractNumId="0"><w:lvl w:ilvl="0">'
        '<w:numFmt w:val="bullet"/></w:lvl></w:abstractNum><w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>'
        "</w:numbering>",
        "word/document.xml": f"{declaration}<w:document {_W}><w:body>{body}</w:body></w:document>",
        **(more or {}),
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()


def core_properties(title: str = "", creator: str = "", created: str = "") -> str:
    return (
        '<cp:coreProperties xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties"'
        ' xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/">'
        f"<dc:title>{title}</dc:title><dc:creator>{creator}</dc:creator>"
        f"<dcterms:created>{created}</dcterms:created></cp:coreProperties>"
    )
