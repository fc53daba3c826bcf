"""The module `hermes_tools`, which many prompts are written for: seven functions that return dicts, with {"error": …} where a
tool fails. What they take is what older and newer prompts pass: numbers and flags as text too, numbers out of bounds as the
nearest bound, and what is no number as the default."""

import json
import math
import sys
import types

from . import errors, helpers

_DOC = """Seven tools as functions that return dicts, {"error": …} where they fail; see also `tools`, which has all others."""
_PAGES = 10  # these bounds are those of the tools
_RESULTS = (1, 20)
_CHARACTERS = (200, 200_000)
_NOTED = set()


def module(calls):
    def ask(category, name, **named):
        try:
            return _as_dict(calls.call(category, name, (), {key: value for key, value in named.items() if value is not None}))
        except errors.ToolNeedsConfirmation:
            raise  # it is what ends the run, and no result
        except errors.ToolError as error:
            return {"error": str(error), **error.details}

    def web_search(query, limit=5, **others):
        """Searches the web: {"success", "data": {"web": [{"url", "title", "description", "position"}]}}."""
        _drop("web_search", others)
        return _searched(ask("web", "web_search", query=query, limit=_whole(limit, 5, *_RESULTS)))

    def web_extract(urls, char_limit=None, **others):
        """Readable text of pages: {"results": [{"url", "title", "content", "error"}]}, the content as markdown."""
        _drop("web_extract", others)
        if isinstance(urls, (list, tuple)) and len(urls) > _PAGES:
            _note(f"web_extract() reads {_PAGES} pages in a call: the other {len(urls) - _PAGES} are left out")
            urls = urls[:_PAGES]
        urls = [urls] if isinstance(urls, str) else urls
        found = ask("web", "web_extract", urls=urls, char_limit=_whole(char_limit, None, *_CHARACTERS))
        return {"results": found["result"]} if isinstance(found.get("result"), list) else found

    def read_file(path, offset=1, limit=2000, **others):
        """Lines of a file, numbered from 1 as "1|text": {"content", "total_lines", "file_size", "truncated", …}."""
        _drop("read_file", others)
        offset, limit = _whole(offset, 1, 1), _whole(limit, 2000, 1)
        return ask("files", "read_file", path=path, offset=offset, limit=limit, line_numbers=True)

    def write_file(path, content, cross_profile=False, **others):
        """Writes a file, and the folders above it: {"status", "bytes_written", "dirs_created"}."""
        _drop("write_file", others)
        return ask("files", "write_file", path=path, content=content)

    def search_files(
        pattern,
        target="content",
        path=".",
        file_glob=None,
        limit=50,
        offset=0,
        output_mode="content",
        context=0,
        order="discovery",
        **others,
    ):
        """Lines that a regular expression finds: {"matches": [{"path", "line", "content"}], "total_count"}; with
        target="files" files by name: {"files", "total_count"}."""
        _drop("search", others)
        return ask(
            "files",
            "search",
            pattern=pattern,
            target=target,
            path=path,
            file_glob=file_glob,
            limit=_whole(limit, 50, 1),
            offset=_whole(offset, 0, 0),
            output_mode=output_mode,
            context=_whole(context, 0, 0),
            order=order,
        )

    def patch(
        path=None, old_string=None, new_string=None, replace_all=False, mode="replace", patch=None, cross_profile=False, **others
    ):
        """Replaces a text that is there once (or all, with replace_all), or with mode="patch" applies a patch that begins
        with "*** Begin Patch": {"success", "diff", "files_modified", …}."""
        _drop("patch", others)
        return ask(
            "files",
            "patch",
            path=path,
            old_string=old_string,
            new_string=new_string,
            replace_all=replace_all.strip().lower() == "true" if isinstance(replace_all, str) else bool(replace_all),
            mode=mode,
            patch=patch,
        )

    def terminal(command, timeout=None, workdir=None, **others):
        """Runs a shell command in the foreground: {"output", "exit_code", "error"}."""
        _drop("terminal", others)
        return ask("shell", "terminal", command=command, timeout=_seconds(timeout), workdir=workdir)

    made = types.ModuleType("hermes_tools", _DOC)
    made.search = search_files
    own = (web_search, web_extract, read_file, write_file, search_files, patch, terminal)
    for one in own:
        one.__module__, one.__qualname__ = "hermes_tools", one.__name__
    for one in (*own, *helpers.PUBLIC):
        setattr(made, one.__name__, one)
    made.ToolError = errors.ToolError
    made.__all__ = ["search", *(one.__name__ for one in (*own, *helpers.PUBLIC))]
    return made


def _drop(name, others):
    """A note, once for each, on parameters that are not taken here."""
    new = [one for one in others if (name, one) not in _NOTED]
    if not new:
        return
    _NOTED.update((name, one) for one in new)
    why = "; commands run in the foreground" if name == "terminal" else ""
    _note(f"{name}() takes no {' and no '.join(new)} here: ignored{why}")


def _note(words):
    try:
        sys.stderr.write(f"note: {words}\n")
    except Exception:
        pass  # the code closed or replaced it


def _whole(value, default, least, most=1 << 53):
    try:
        number = value if isinstance(value, int) else int(float(value))
    except (TypeError, ValueError, OverflowError):
        return default
    return min(max(number, least), most)


def _seconds(value):
    """None: as long as the run may take."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if number > 0 and math.isfinite(number) else None


def _as_dict(value):
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            pass
    return value if isinstance(value, dict) else {"result": value}


def _searched(found):
    rows = found.get("result", (found.get("data") or {}).get("web"))
    if not isinstance(rows, list):
        return found
    return {"success": True, "data": {"web": [{**row, "position": number} for number, row in enumerate(rows, 1)]}}
