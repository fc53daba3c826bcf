"""The module `tools` as code sees it: tools.<category>.<tool>(…). Categories are modules, so that they can be imported from."""

import types

from . import errors

_PUBLIC_DOC = """The tools that this code may call.

tools.<category>.<tool>(…)           calls one; await tools.aio.<category>.<tool>(…) in asyncio code
tools.call("category", "tool", {…})  the same by exact names
tools.search("words")                finds tools by what they do
tools.ls("tools/"), tools.read("tools/__index__.md"), tools.tree()
                                     the same as files: read("tools/<category>/<tool>.py") is a tool's stub
help(tools.<category>.<tool>)        its parameters
query(data), json_parse(text), shell_quote(text), retry(fn)
                                     for what tools return

A call that fails raises ToolError (UnknownTool, ToolArgumentError, ToolDenied, ToolBudgetExceeded)."""


class tool:
    """A tool. Called, it returns the tool's result, or raises ToolError."""

    def __init__(self, catalog, category, entry):
        self._catalog, self._category, self._entry = catalog, category, entry
        self.__name__ = self.__qualname__ = entry["alias"]
        self.__module__ = f"tools.{category['alias']}"

    def __call__(self, /, *args, **kw):
        return self._catalog.calls.call(self._category["name"], self._entry["name"], args, kw)

    def __get__(self, instance, owner=None):
        """Not bound to anything; that there is one makes it a routine for help()."""
        return self

    @property
    def __signature__(self):
        return self._catalog.described(self._category, self._entry)[0]

    @property
    def __doc__(self):
        return self._catalog.described(self._category, self._entry)[1] or "A tool."

    def __repr__(self):
        signature, text = self._catalog.described(self._category, self._entry)
        summary = text.strip().partition("\n")[0]
        return f"<tool {self.__module__}.{self.__name__}{signature}{f' - {summary}' if summary else ''}>"


class category(types.ModuleType):
    """Tools of one category."""

    def __init__(self, catalog, entry, make):
        super().__init__(f"tools.{entry['alias']}")
        self._catalog, self._entry, self._make = catalog, entry, make
        self._made = {}
        self.__path__ = []
        self.__package__ = self.__name__
        self.__all__ = [one["alias"] for one in entry["tools"]]
        problem = f"\n\nNot all of it can be called now: {entry['problem']}" if entry["problem"] else ""
        names = "\n".join(f"    {name}" for name in self.__all__)
        self.__doc__ = f"{entry['description']}{problem}\n\nTools, help() of each says more:\n{names}"

    def __getattr__(self, name):
        if name[:2] == "__" == name[-2:]:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name, obj=None)
        return self[name]

    def __getitem__(self, name):
        found = self._catalog.tool(self._entry, name)
        if found["name"] not in self._made:
            self._made[found["name"]] = self._make(self._catalog, self._entry, found)
        return self._made[found["name"]]

    def __call__(self, *arguments, **named):
        example = f", such as {self.__name__}.{self.__all__[0]}(…)" if self.__all__ else ""
        raise TypeError(f"{self.__name__} is a category of tools and can not be called; call one of its tools{example}")

    def __iter__(self):
        return iter(self.__all__)

    def __dir__(self):
        return sorted(self.__all__)

    def __repr__(self):
        names = ", ".join(self.__all__[:8]) + (", …" if len(self.__all__) > 8 else "")
        problem = f"; {self._entry['problem']}" if self._entry["problem"] else ""
        return f"<{self.__name__}: {names or 'no tools'}{problem}>"


class Namespace(types.ModuleType):
    """`tools`, or `tools.aio`."""

    def __init__(self, name, catalog, make, members, doc):
        super().__init__(name, doc)
        self._catalog, self._make = catalog, make
        self._made = {}
        self._members = tuple(members)
        self._own = None  # where names are looked for that are not here, see install.py
        self.__path__ = []
        self.__package__ = name
        for member, value in members.items():
            self.__dict__[member] = value

    def __getattr__(self, name):
        if name == "__all__":
            return [*self._members, *self]
        if name[:2] == "__" == name[-2:]:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name, obj=None)
        try:
            return self[name]
        except errors.UnknownTool:
            if self._own is None:
                raise
            try:
                return self._own(name)
            except AttributeError:
                pass
            raise

    def __getitem__(self, name):
        found = self._catalog.category(name)
        one = self._made.get(found["name"])
        if one is None:
            one = category(self._catalog, found, self._make)
            one.__name__ = one.__package__ = f"{self.__name__}.{found['alias']}"
            if not found.get("pending"):
                self._made[found["name"]] = one
        return one

    def __iter__(self):
        return iter([one["alias"] for one in self._catalog.categories()])

    def __dir__(self):
        try:
            return sorted({*self._members, *self})
        except errors.ToolError:
            return sorted(self._members)

    def __repr__(self):
        try:
            entries = self._catalog.categories()
        except errors.ToolError as error:
            return f"<{self.__name__}: {error}>"
        counts = ", ".join(f"{one['alias']} ({'not started yet' if one.get('pending') else len(one['tools'])})" for one in entries[:12])
        more = f", and {len(entries) - 12} more" if len(entries) > 12 else ""
        return f'<{self.__name__}: {counts or "no tools"}{more}; tools.search("words") finds tools, help(…) explains one>'


def by_name(names, named):
    """(category, tool, other positional arguments, named ones) of call_tool. Both names may be given by name, as long as they
    are not there by position: a parameter of the tool may be called the same."""
    names = list(names)
    for parameter in ("category", "tool_name")[len(names) :]:
        if parameter not in named:
            raise TypeError(f'call_tool("category", "tool_name", …): {parameter} is missing')
        names.append(named.pop(parameter))
    return names[0], names[1], tuple(names[2:]), named


def arguments_of(given, named):
    """The arguments of call("category", "tool", {…}, **named)."""
    if given is None:
        return named
    if not isinstance(given, dict) or not all(isinstance(name, str) for name in given):
        raise errors.ToolArgumentError(
            f'call("category", "tool", {{"name": value, …}}): the arguments are a dict with str keys, not {type(given).__name__}'
        )
    return {**given, **named}


def tools(catalog, more):
    """The module `tools`. more: {name: value} of what it has besides."""
    calls = catalog.calls

    def call(category, tool, arguments=None, /, **named):
        """Calls tools.<category>.<tool> by exact names or aliases: call("web", "web_extract", {"urls": [...]})."""
        return calls.call(category, tool, (), arguments_of(arguments, named))

    def call_tool(*names, **named):
        """call_tool(category, tool_name, /, *args, **kw): calls a tool by exact names or aliases."""
        return calls.call(*by_name(names, named))

    def ls(path="tools/"):
        """The names below a folder of the tools' virtual files: "tools/", "tools/<category>/"; [] for unknown ones."""
        return calls.request("ls", path=text_of(path))

    def read(path="tools/__index__.md"):
        """The text of a virtual file: tools/__index__.md, tools/<category>/__index__.md, tools/<category>/<tool>.py."""
        return calls.request("read", path=text_of(path))

    def tree(path="tools/"):
        """All categories and tools as an indented text."""
        return calls.request("tree", path=text_of(path))

    def search(words, limit=20):
        """Tools by words in their names, descriptions and parameters: [{"category", "tool", "call", "summary", "score"}]."""
        return calls.request("search", words=text_of(words, "words"), limit=limit)

    own = {one.__name__: one for one in (call, call_tool, ls, read, tree, search)}
    for one in own.values():
        one.__module__, one.__qualname__ = "tools", one.__name__
    members = {**own, **{one.__name__: one for one in errors.PUBLIC}, **more}
    return Namespace("tools", catalog, tool, members, _PUBLIC_DOC)


def text_of(path, what="path"):
    text = path if isinstance(path, str) else str(path)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise errors.ToolArgumentError(f"{what} has half a surrogate pair, which is no character") from None
    return text
