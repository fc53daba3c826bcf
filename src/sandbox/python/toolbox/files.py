"""files.read_file and files.write_file, as they run in the sandbox."""

import os

from . import places, staging
from .places import Failure

LARGEST_SCANNED = 256 << 20
LARGEST_PAGE = 8 << 20
SAMPLE = 8192

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF-", "a PDF"),
    (b"PK\x03\x04", "a ZIP archive, or a document that is one (docx, xlsx, jar)"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\0", "xz data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"\x7fELF", "an ELF program"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"PAR1", "a Parquet file"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\xff\xfe", "text in UTF-16"),
    (b"\xfe\xff", "text in UTF-16"),
)


def read_file(path, offset=1, limit=2000, line_numbers=False):
    real, status = places.regular_file(path)
    offset = places.whole_number(offset, "offset", 1)
    limit = places.whole_number(limit, "limit", 1)
    if status.st_size > LARGEST_SCANNED:
        size = places.size_in_words(status.st_size)
        raise Failure(f"{path} is too large to be read by lines ({size}): go through it with open() in the code")
    with open(real, "rb") as file:
        refuse_binary(path, file.read(SAMPLE), status.st_size)
        file.seek(0)
        total, page, size = 0, [], 0
        for line in file:
            total += 1
            if offset <= total < offset + limit:
                size += len(line)
                if size > LARGEST_PAGE:
                    most = places.size_in_words(LARGEST_PAGE)
                    raise Failure(f"these lines of {path} are over {most}: pass a smaller limit, or use open() in the code")
                page.append(line)
    text = b"".join(page).decode("utf-8", "replace")
    if offset == 1:
        text = text.removeprefix("\ufeff")
    if line_numbers:
        lines = text.removesuffix("\n").split("\n") if page else []
        text = "\n".join(f"{number}|{line}" for number, line in enumerate(lines, offset))
    result = {
        "content": text,
        "total_lines": total,
        "file_size": status.st_size,
        "truncated": total >= offset + limit,
        "is_binary": False,
        "is_image": False,
    }
    if result["truncated"]:
        result["hint"] = f"lines {offset} to {offset + limit - 1} of {total}; go on with offset={offset + limit}"
    elif offset > total:
        result["hint"] = f"the file has {total} lines; offset={offset} is beyond its end"
    return result


def write_file(path, content):
    real = places.resolve(path)
    if not isinstance(content, str):
        raise Failure(f"content must be text, not {type(content).__name__}; for bytes use open(path, 'wb') in the code")
    if os.path.isdir(real):
        raise Failure(f"{path} is a folder")
    exists = os.path.lexists(real)
    if exists:
        places.regular_file(path)
    data = content.encode()
    made = not os.path.isdir(os.path.dirname(real))
    staging.put({real: (data, real if exists else None)})
    return {"status": "ok", "path": places.shown(real), "bytes_written": len(data), "dirs_created": made}


def is_binary(sample):
    """Of the first bytes of a file: whether they are no text in UTF-8. A character may be cut in two by their end."""
    if b"\0" in sample:
        return True
    try:
        sample.decode()
        return False
    except UnicodeDecodeError as error:
        return error.start < len(sample) - 3 or error.reason != "unexpected end of data"


def refuse_binary(path, sample, size):
    if not is_binary(sample):
        return
    kind = next((words for magic, words in _MAGIC if sample.startswith(magic)), "binary data")
    how = "open(path, encoding='utf-16')" if "UTF-16" in kind else "open(path, 'rb') or a library for it"
    raise Failure(
        f"{path} is {kind} ({places.size_in_words(size)}), not text in UTF-8; use {how} in the code",
        details={"is_binary": True, "is_image": "image" in kind, "file_size": size},
    )


def line_end(text):
    """Of all its lines; LF where they differ."""
    return "\r\n" if 0 < text.count("\n") == text.count("\r\n") else "\n"


def read_text(path):
    """(real path, the whole text) of a file that is to be changed. Raises Failure."""
    real, status = places.regular_file(path)
    if status.st_size > 4 * LARGEST_PAGE:
        raise Failure(f"{path} is too large to be patched ({places.size_in_words(status.st_size)}): change it in the code")
    with open(real, "rb") as file:
        data = file.read()
    try:
        return real, data.decode()
    except UnicodeDecodeError:
        refuse_binary(path, data[:SAMPLE] if is_binary(data[:SAMPLE]) else b"\0", len(data))
        raise
