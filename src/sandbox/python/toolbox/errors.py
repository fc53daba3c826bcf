"""What goes wrong with a tool call. All of them can be imported from `tools`."""


class ToolError(Exception):
    """A tool call failed; the message is the tool's own.

    tool: "category.name", or None where it is about no tool. kind: "tool", "unknown", "arguments", "denied",
    "needs_confirmation", "budget", "ended", or "lost": the tool did its work, and its result is too large to be had.
    details: what a built-in tool says besides the message.
    """

    kind = "tool"

    def __init__(self, message="", tool=None, kind=None, details=None):
        super().__init__(message)
        self.tool = tool
        self.details = details or {}
        if kind is not None:
            self.kind = kind


class UnknownTool(ToolError, AttributeError):
    """There is no such category or tool."""

    kind = "unknown"

    def __init__(self, message="", tool=None, kind=None, details=None):
        ToolError.__init__(self, message, tool, kind, details)
        # With an object given, the interpreter adds no suggestion of its own: the message has one. (The other __init__ takes
        # it away again.)
        AttributeError.__init__(self, message, name="", obj=None)


class ToolArgumentError(ToolError, TypeError):
    """The arguments are not what the tool takes, or are no JSON. Nothing was called."""

    kind = "arguments"


class ToolDenied(ToolError):
    """Configuration or a person forbids this tool."""

    kind = "denied"


class ToolNeedsConfirmation(ToolError):
    """A person has to approve this tool first. The run ends, and is asked for."""

    kind = "needs_confirmation"


class ToolBudgetExceeded(ToolError):
    """The run has made as many tool calls as it may."""

    kind = "budget"


PUBLIC = (ToolError, UnknownTool, ToolArgumentError, ToolDenied, ToolNeedsConfirmation, ToolBudgetExceeded)
_OF_KIND = {one.kind: one for one in PUBLIC}
for _one in PUBLIC:
    _one.__module__ = "tools"  # as tracebacks name it


def of_kind(kind, message, tool=None):
    """The error that an answer of the worker stands for."""
    return _OF_KIND.get(kind, ToolError)(message, tool, kind)


def over():
    return ToolError(
        "no more tool calls: the run is over, or the code has written to descriptor 4 what is no request", kind="ended"
    )
