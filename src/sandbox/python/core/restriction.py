"""SANDBOX_POLICY=restricted: code is compiled with RestrictedPython, which lets through what it knows and refuses all else.

Works with RestrictedPython 4 to 8 on each Python that they run on: what older ones refuse only since it is newer than they are
(constants, f-strings, annotations, augmented assignment) is let through here, and no newer one lets through a kind of syntax that is
not named here. Imported in the zygote under this policy alone; what the code meets at run time is in core/guards.py.
"""

import ast

from RestrictedPython.transformer import RestrictingNodeTransformer

from . import guards
from .toolbox import fields

guards.guard_fields(fields)
_SHOWN = 5
_HERE = "under the restricted policy"
# Methods that a class may define, and call of its base.
_MAGIC = frozenset(
    f"__{name}__"
    for name in """
        init repr str bool len hash call iter next reversed contains getitem setitem delitem missing enter exit format
        eq ne lt le gt ge int float complex index round abs neg pos invert
        add sub mul truediv floordiv mod divmod pow lshift rshift and or xor
        radd rsub rmul rtruediv rfloordiv rmod rdivmod rpow rlshift rrshift rand ror rxor
        iadd isub imul itruediv ifloordiv imod ipow ilshift irshift iand ior ixor
    """.split()
)
_ABSENT = {
    "open": "files are read and written with the tools of tools.files, where there are any",
    "input": "there is nobody to ask",
    **dict.fromkeys(("eval", "exec", "compile"), "code can not be made at run time"),
    **dict.fromkeys(("globals", "locals", "vars", "dir"), "use a dict of your own"),
    **dict.fromkeys(("exit", "quit"), "raise SystemExit instead"),
    **dict.fromkeys(("breakpoint", "help", "memoryview", "aiter", "anext"), "do without it"),
}
_ASYNC = "async code is not allowed: call tools without await, as in tools.<category>.<tool>(…)"
_WORDS = {
    **dict.fromkeys(("AsyncFunctionDef", "AsyncFor", "AsyncWith", "Await"), _ASYNC),
    "Match": "match statements are not allowed: use if and elif",
    "TryStar": "except* is not allowed: use except",
    **dict.fromkeys(("TypeAlias", "TypeVar", "ParamSpec", "TypeVarTuple"), "type parameters are not allowed: leave them out"),
    "TemplateStr": "t-strings are not allowed: use f-strings",
}
# What needs no guard: iteration, items and unpacking reach nothing that the code does not have.
_PLAIN = frozenset(
    """
    Module Expr Constant JoinedStr FormattedValue NamedExpr Yield YieldFrom Subscript Slice Starred comprehension Call Lambda
    List Tuple Set Dict ListComp SetComp DictComp GeneratorExp IfExp BoolOp BinOp UnaryOp Compare keyword arguments
    Assign Delete If For While Break Continue Pass Return Raise Assert Try With withitem
    And Or Not Invert UAdd USub Add Sub Mult Div FloorDiv Mod Pow MatMult LShift RShift BitAnd BitOr BitXor
    Eq NotEq Lt LtE Gt GtE Is IsNot In NotIn Load Store Del
    """.split()
)
_GUARDED = frozenset(
    "Name Attribute AugAssign AnnAssign arg FunctionDef ClassDef ExceptHandler Global Nonlocal Import ImportFrom".split()
)


class Policy(RestrictingNodeTransformer):
    """Collects what is not allowed in `found`: [(node, words)]."""

    def __init__(self, own):
        super().__init__()
        self.found = []
        self._own = own

    def error(self, node, info):
        self.found.append((node, info))

    def not_allowed(self, node):
        kind = type(node).__name__
        self.error(node, _WORDS.get(kind, f"{kind} is not allowed"))

    def warn(self, node, info):
        """Of no interest: whatever it warns of is refused as well."""

    def check_name(self, node, name, allow_magic_methods=False):
        if name is None or name == "_":
            return
        if name.startswith("_") or name.endswith("__roles__"):
            self.error(node, f'the name "{name}" is not allowed: use names that do not begin with "_"')
        elif name == "super":
            self.error(node, 'the name "super" is not to be given to anything else')

    def visit(self, node):
        """Whatever its version lets through besides, and whatever Python has that it was not made for, is refused."""
        kind = type(node).__name__
        if kind in _PLAIN:
            return self.plain(node)
        if kind in _GUARDED:
            return getattr(self, f"visit_{kind}")(node)
        self.not_allowed(node)
        return node

    def plain(self, node):
        return self.node_contents_visit(node)

    def visit_Name(self, node):
        if isinstance(node.ctx, ast.Load):
            if node.id == "__name__":
                return node
            if node.id in _ABSENT and node.id not in self._own:
                self.error(node, f"{node.id}() is not allowed: {_ABSENT[node.id]}")
        if node.id != "super" or not isinstance(node.ctx, ast.Load):
            self.check_name(node, node.id)
        return node

    def visit_Attribute(self, node):
        is_load = isinstance(node.ctx, ast.Load)
        if is_load and node.attr in _MAGIC and _is_super(node.value):
            return node
        why = guards.refused(node.attr)
        if why is not None and not (is_load and node.attr == "__name__"):
            self.error(node, why.removesuffix(f" {_HERE}"))
        node.value = self.visit(node.value)
        if is_load:
            return _call("_getattr_", node, node.value, ast.Constant(node.attr))
        node.value = _call("_write_", node, node.value)
        return node

    def visit_AugAssign(self, node):
        target = node.target
        if isinstance(target, ast.Attribute) and target.attr in guards.GUARDED:
            # What is read of it passes no guard, and the value's own methods are given it.
            self.error(node, f'augmented assignment of the attribute "{target.attr}" is not allowed: choose another name')
        return self.plain(node)

    def visit_AnnAssign(self, node):
        """Without the annotation, which would be evaluated, and may name what can not be imported."""
        target = self.visit(node.target)
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        return ast.copy_location(ast.Assign([target], self.visit(node.value)), node)

    def visit_arg(self, node):
        self.check_name(node, node.arg)
        node.annotation = None  # as above
        return node

    def visit_FunctionDef(self, node):
        if node.name not in _MAGIC:
            self.check_name(node, node.name)
        node.returns = None
        return self.plain(node)

    def visit_ClassDef(self, node):
        self.check_name(node, node.name)
        if node.keywords:
            self.error(node, "arguments of a class such as metaclass= are not allowed")
        node = self.plain(node)
        metaclass = ast.Name("__metaclass__", ast.Load())
        node.keywords = [ast.keyword("metaclass", metaclass)]
        return node

    def visit_ExceptHandler(self, node):
        self.check_name(node, node.name)
        return self.plain(node)

    def visit_Global(self, node):
        for name in node.names:
            self.check_name(node, name)
        return node

    visit_Nonlocal = visit_Global

    def visit_Import(self, node):
        names = [alias.name.partition(".")[0] for alias in node.names]
        self._refuse_import(node, names)
        return node

    def visit_ImportFrom(self, node):
        if node.module == "__future__" and all(alias.name != "*" for alias in node.names):
            return ast.copy_location(ast.Pass(), node)  # annotations, which are left out anyway, or what is in every Python
        self._refuse_import(node, [(node.module or "").partition(".")[0]])
        return node

    def _refuse_import(self, node, names):
        if names == ["tools"]:
            words = "imports are not allowed: tools, call_tool, ls and read are there without one, so delete this line"
        else:
            words = f"imports are not allowed ({', '.join(names)}): do it with built-in functions, or with tools where there are any"
        self.error(node, words)

def _is_super(node):
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super" and not (node.args or node.keywords)


def _call(name, node, *args):
    call = ast.Call(ast.Name(name, ast.Load()), list(args), [])
    return ast.fix_missing_locations(ast.copy_location(call, node))


def _names_of(tree):
    """The names to which the code gives a meaning of its own."""
    own = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            own.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            own.add(node.name)
        elif isinstance(node, ast.arg):
            own.add(node.arg)
    return own


def rewrite(tree, path, text):
    """The tree with guards in it. Raises SyntaxError, with words for all that is not allowed."""
    policy = Policy(_names_of(tree))
    tree = policy.visit(tree)
    if policy.found:
        raise _refusal(policy.found, path, text)
    return ast.fix_missing_locations(tree)


def _refusal(found, path, text):
    def line(one):
        return getattr(one[0], "lineno", 0)

    found = list({(line(one), one[1]): one for one in sorted(found, key=line)}.values())
    node, words = found[0]
    more = [f"line {line(one)}: {one[1]}" for one in found[1:_SHOWN]]
    if len(found) > _SHOWN:
        more.append(f"and {len(found) - _SHOWN} more")
    message = f"{_HERE}, {words}" + "".join(f"; {one}" for one in more)
    lines = text.splitlines()
    number = line(found[0])
    if not 0 < number <= len(lines):
        return SyntaxError(message)
    shown = lines[number - 1]
    column = len(shown.encode()[: getattr(node, "col_offset", 0)].decode(errors="ignore")) + 1
    return SyntaxError(message, (path, number, column, shown))


prepare = guards.prepare
