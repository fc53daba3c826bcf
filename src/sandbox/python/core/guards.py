"""What code that was compiled under the restricted policy finds at run time: builtins, and guards on its attributes.

The code can name nothing that begins with an underscore (core/restriction.py), so nothing of this can be replaced or looked into.
What is refused raises the error that ordinary code would meet with words that say what is not allowed.
"""

import _string
import builtins
import re
import string
import types
import weakref

_NO_DEFAULT = object()
_Function, _Builtin, _Descriptor = types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType
# What frames, code, tracebacks and generators are looked into by, in this version of Python.
_INSPECTED = frozenset(
    name
    for kind in (
        types.FrameType,
        types.TracebackType,
        types.CodeType,
        types.GeneratorType,
        types.CoroutineType,
        types.AsyncGeneratorType,
    )
    for name in dir(kind)
    if re.match("(f|tb|co|gi|cr|ag)_", name)
) | {"mro"}
_FORMATS = ("format", "format_map")
GUARDED = (*_FORMATS, "obj")  # what get() looks at besides the name


def refused(name):
    """Why an attribute of this name is not for restricted code; None where it is."""
    if name.startswith("_") or name.endswith("__roles__"):
        return f'the attribute "{name}" is not allowed: names that begin with "_" can not be used under the restricted policy'
    if name in _INSPECTED:
        return f'the attribute "{name}" is not allowed: code can not look into frames, code and types under the restricted policy'
    return None


def _check_name(name):
    # A subclass of str could answer differently each time that it is asked.
    if type(name) is not str:
        raise TypeError("attribute name must be string")


def get(one, name, default=_NO_DEFAULT):
    """getattr(), for the code's own `x.name` as well."""
    _check_name(name)
    why = refused(name)
    if why is not None and not (name == "__name__" and isinstance(one, (type, _Function, _Builtin))):
        raise AttributeError(why)
    if name == "obj" and isinstance(one, AttributeError):
        raise AttributeError('the attribute "obj" of an error is not allowed under the restricted policy')
    if default is _NO_DEFAULT:
        found = getattr(one, name)
    else:
        found = getattr(one, name, default)
    return _safe_format(name, found) if name in _FORMATS else found


def _get_or(one, name, default=_NO_DEFAULT):
    """For the toolbox's query(): a field that is refused is one that is not there."""
    try:
        return get(one, name, default)
    except AttributeError:
        if default is _NO_DEFAULT:
            raise
        return default


class _Formatter(string.Formatter):
    """str.format() reaches attributes by names that are in the text: the same ones are refused."""

    def get_field(self, field_name, args, kwargs):
        first, rest = _string.formatter_field_name_split(field_name)
        one = self.get_value(first, args, kwargs)
        for is_attribute, name in rest:
            one = get(one, name) if is_attribute else one[name]
        return one, first


_formatter = _Formatter()


def _safe_format(name, found):
    """found: what an object has under the name of a method of str that formats."""
    is_map = name == "format_map"
    if type(found) is _Builtin and isinstance(found.__self__, str):
        text = found.__self__
        if is_map:
            return lambda mapping, /: _formatter.vformat(text, (), mapping)
        return lambda *args, **kw: _formatter.vformat(text, args, kw)
    if type(found) is _Descriptor and issubclass(found.__objclass__, str):
        if is_map:
            return lambda text, mapping, /: _formatter.vformat(text, (), mapping)
        return lambda text, /, *args, **kw: _formatter.vformat(text, args, kw)
    return found


_made = weakref.WeakSet()  # the classes of the code


def make_class(name, bases, names, **more):
    """The metaclass of each class of the code."""
    if more or any(issubclass(base, type) for base in bases if isinstance(base, type)):
        raise TypeError("metaclasses are not allowed under the restricted policy")
    one = type(name, bases, names)
    _made.add(one)
    return one


def write(one):
    """The object itself, where its attributes are the code's to set and delete."""
    is_own_class = isinstance(one, type) and one in _made
    if type(one) in _made or is_own_class or (type(one) is _Function and one.__globals__ is _names):
        return one
    kind = type(one).__name__
    raise TypeError(f"attributes of {kind} can not be set or deleted under the restricted policy, only those of your own classes")


def _setattr(one, name, value, /):
    _check_writable(name)
    setattr(write(one), name, value)


def _delattr(one, name, /):
    _check_writable(name)
    delattr(write(one), name)


def _check_writable(name):
    _check_name(name)
    why = refused(name)
    if why is not None:
        raise AttributeError(why)


def _getattr(one, name, /, *default):
    if len(default) > 1:
        raise TypeError(f"getattr expected at most 3 arguments, got {2 + len(default)}")
    return get(one, name, *default)


def _hasattr(one, name, /):
    _check_name(name)
    if name[:2] == "__" == name[-2:]:
        return hasattr(one, name)  # such as "__len__": whether there is one gives nothing away, and a wrong answer would mislead
    why = refused(name)
    if why is not None:
        raise AttributeError(why)
    try:
        get(one, name)
    except AttributeError:
        return False
    return True


class _KindOfType(type):
    def __instancecheck__(cls, one):
        return isinstance(one, builtins.type)

    def __repr__(cls):
        return "<class 'type'>"


class _Type(metaclass=_KindOfType):
    """type(x), which makes no classes."""

    def __new__(cls, one, /, *more, **named):
        if more or named:
            raise TypeError("type() with three arguments is not allowed under the restricted policy: write a class statement")
        kind = type(one)
        return _Type if issubclass(kind, type) else kind


_PLAIN = """
    None True False NotImplemented Ellipsis
    abs all any ascii bin bool bytearray bytes callable chr classmethod complex dict divmod enumerate filter float format frozenset
    hash hex id int isinstance issubclass iter len list map max min next object oct ord pow property range repr reversed round set
    slice sorted staticmethod str sum super tuple zip __build_class__
""".split()
_BUILTINS = {name: getattr(builtins, name) for name in _PLAIN}
_BUILTINS.update(
    (name, kind)
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, BaseException) and not kind.__name__.endswith("ExceptionGroup")
)
_BUILTINS.update(type=_Type, getattr=_getattr, hasattr=_hasattr, setattr=_setattr, delattr=_delattr)
for _one, _name in ((_getattr, "getattr"), (_hasattr, "hasattr"), (_setattr, "setattr"), (_delattr, "delattr"), (_Type, "type")):
    _one.__name__ = _one.__qualname__ = _name
# The guest's own, and what the toolbox has put there.
_OF_GUEST = ("print", "display", "tools", "ls", "read", "call_tool")
_names = {}


def prepare(names):
    """names: of the main module, before the code is run."""
    global _names
    _names = names
    own = vars(builtins)
    names["__builtins__"] = {**_BUILTINS, **{name: own[name] for name in _OF_GUEST if name in own}}
    names["__metaclass__"] = make_class
    names["_getattr_"] = get
    names["_write_"] = write
    for name in ("__loader__", "__cached__", "__annotations__", "__spec__"):
        names.pop(name, None)


def guard_fields(fields):
    """fields: the toolbox's module that finds fields of rows by their names."""
    fields.getattr = _get_or
