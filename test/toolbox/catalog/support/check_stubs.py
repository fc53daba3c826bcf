"""Reads [{"stub", "name"}] from stdin; writes for each what Python makes of it, or its error."""

import ast
import builtins
import inspect
import json
import sys
import types
import typing


def looked_at(case):
    tree = ast.parse(case["stub"])
    last = tree.body[-1]
    assert isinstance(last, ast.FunctionDef), "the last statement is no def"
    module = sys.modules["stub"] = types.ModuleType("stub")
    names = vars(module)
    exec(compile(tree, "<stub>", "exec"), names)
    function = names[case["name"]]
    if not hasattr(builtins, case["name"]) and not hasattr(typing, case["name"]):
        typing.get_type_hints(function, names)
        for one in list(names.values()):
            if typing.is_typeddict(one):
                typing.get_type_hints(one, names)
    signature = inspect.signature(function)
    rows = [
        {
            "name": one.name,
            "kind": one.kind.name,
            "required": one.default is one.empty,
            "default": repr(one.default),
            "annotation": one.annotation,
        }
        for one in signature.parameters.values()
    ]
    return {"parameters": rows, "returns": signature.return_annotation, "doc": inspect.getdoc(function)}


answers = []
for case in json.loads(sys.stdin.buffer.read().decode("utf-8")):
    try:
        answers.append(looked_at(case))
    except BaseException as error:
        answers.append({"error": f"{type(error).__name__}: {error}"[:500]})
sys.stdout.write(json.dumps(answers))
