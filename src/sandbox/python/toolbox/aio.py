"""tools.aio: the same tools, to be awaited. Any number of calls at once cost one thread, which reads for all of them."""

from .namespace import Namespace, text_of, arguments_of, by_name, tool

_DOC = """The tools for asyncio code: await tools.aio.<category>.<tool>(…); asyncio.gather(…) makes them run in parallel."""


class aio_tool(tool):
    """A tool. Called, it returns what is to be awaited for the tool's result."""

    async def __call__(self, /, *args, **kw):
        return await self._catalog.calls.call_async(self._category["name"], self._entry["name"], args, kw)


def aio(catalog):
    """The module `tools.aio`."""
    calls = catalog.calls

    async def call(category, tool, arguments=None, /, **named):
        """As tools.call()."""
        return await calls.call_async(category, tool, (), arguments_of(arguments, named))

    async def call_tool(*names, **named):
        """As tools.call_tool()."""
        return await calls.call_async(*by_name(names, named))

    async def ls(path="tools/"):
        """As tools.ls()."""
        return await calls.request_async("ls", path=text_of(path))

    async def read(path="tools/__index__.md"):
        """As tools.read()."""
        return await calls.request_async("read", path=text_of(path))

    async def search(words, limit=20):
        """As tools.search()."""
        return await calls.request_async("search", words=text_of(words, "words"), limit=limit)

    own = {one.__name__: one for one in (call, call_tool, ls, read, search)}
    for one in own.values():
        one.__module__, one.__qualname__ = "tools.aio", one.__name__
    return Namespace("tools.aio", catalog, aio_tool, own, _DOC)
