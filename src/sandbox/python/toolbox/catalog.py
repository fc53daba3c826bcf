"""What tools there are, as the worker lists them: asked for once, when it is first needed."""

import ast
import difflib
import inspect
import threading

from . import errors


class Catalog:
    def __init__(self, calls):
        self.calls = calls
        self._lock = threading.RLock()
        self._categories = None
        self._stubs = {}

    def categories(self):
        """[{name, alias, description, problem, tools}]. Raises ToolError where the run has no toolbox, or is over."""
        with self._lock:
            if self._categories is None:
                self._categories = self.calls.request("catalog")["categories"]
            return self._categories

    def category(self, name):
        """The category of that exact name, or alias. Raises UnknownTool."""
        found = _find(self.categories(), name)
        if found is not None and found.get("pending"):
            # Its tools are not known yet: the worker waits for them now, and only now, for this code uses them.
            with self._lock:
                self._categories = self.calls.request("catalog", category=found["name"])["categories"]
            found = _find(self._categories, name)
        if found is not None:
            return found
        near = _near(name, self.categories(), "tools.")
        plain = name.removesuffix(".py")
        for one in self.categories():
            near += [f"tools.{one['alias']}.{tool['alias']}" for tool in one["tools"] if plain in _both(tool)]
        raise errors.UnknownTool(f"there is no category of tools {name!r}; {_instead(near, self.categories(), 'categories')}")

    def tool(self, category, name):
        """The tool of that exact name, or alias; a ".py" behind it is dropped. Raises UnknownTool."""
        found = _find(category["tools"], name) or _find(category["tools"], name.removesuffix(".py"))
        if found is not None:
            return found
        if category["problem"] and not category["tools"]:
            raise errors.UnknownTool(f"tools.{category['alias']} has no tools now: {category['problem']}")
        near = _near(name, category["tools"], f"tools.{category['alias']}.")
        words = _instead(near, category["tools"], "tools")
        raise errors.UnknownTool(f"there is no tool {name!r} in tools.{category['alias']}; {words}")

    def stub(self, category, tool):
        """The tool's Python stub, or "" where it can't be had."""
        key = (category["alias"], tool["alias"])
        if key not in self._stubs:
            try:
                self._stubs[key] = self.calls.request("read", path=f"tools/{key[0]}/{key[1]}.py")
            except errors.ToolError:
                return ""
        return self._stubs[key]

    def described(self, category, tool):
        """(signature, docstring) of a tool, out of its stub."""
        try:
            tree = ast.parse(self.stub(category, tool))
        except (SyntaxError, ValueError, RecursionError, TypeError):
            return _ANY, ""
        for node in reversed(tree.body):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                return _signature(node), ast.get_docstring(node) or ""
        return _ANY, ""


class _Written:
    """An annotation or a default as it is written."""

    def __init__(self, node):
        self._text = ast.unparse(node)

    def __repr__(self):
        return self._text


def _signature(function):
    given, kinds = function.args, inspect.Parameter
    plain = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(plain) - len(given.defaults)) + given.defaults
    rows = [(one, kinds.POSITIONAL_OR_KEYWORD, default) for one, default in zip(plain, defaults, strict=True)]
    rows += [(one, kinds.KEYWORD_ONLY, default) for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    if given.kwarg:
        rows.append((given.kwarg, kinds.VAR_KEYWORD, None))
    parameters = [
        inspect.Parameter(
            one.arg,
            kind,
            default=inspect.Parameter.empty if default is None else _Written(default),
            annotation=inspect.Parameter.empty if one.annotation is None else _Written(one.annotation),
        )
        for one, kind, default in rows
    ]
    returns = inspect.Signature.empty if function.returns is None else _Written(function.returns)
    return inspect.Signature(parameters, return_annotation=returns)


_ANY = inspect.Signature([inspect.Parameter("args", 2), inspect.Parameter("kw", 4)])


def _both(entry):
    return entry["alias"], entry["name"]


def _find(entries, name):
    for which in ("name", "alias"):
        for entry in entries:
            if entry[which] == name:
                return entry
    return None


def _near(name, entries, before):
    by_small = {one.lower(): entry["alias"] for entry in entries for one in _both(entry)}
    near = difflib.get_close_matches(name.lower().removesuffix(".py"), by_small, n=3, cutoff=0.6)
    return [before + alias for alias in dict.fromkeys(by_small[one] for one in near)]


def _instead(near, entries, what):
    if near:
        return f"did you mean {' or '.join(near)}?"
    names = [entry["alias"] for entry in entries]
    if not names:
        return f"there are no {what}"
    more = f" and {len(names) - 15} more" if len(names) > 15 else ""
    return f"there are: {', '.join(names[:15])}{more}"
