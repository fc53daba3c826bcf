"""Starts the template: python3 -s -B -X utf8 boot.py, with an empty environment and the worker on descriptor 3.

The folder of this file leaves sys.path before anything else is imported, so that no module of ours can hide one of the
standard library, here or in the code that is run later. Our own modules live in the package _sandbox.
"""

import sys

_here = sys.path.pop(0)

import importlib.util  # noqa: E402


def _load_package():
    location = _here + "/core"
    spec = importlib.util.spec_from_file_location(
        "_sandbox", location + "/__init__.py", submodule_search_locations=[location]
    )
    package = importlib.util.module_from_spec(spec)
    sys.modules["_sandbox"] = package
    spec.loader.exec_module(package)


_load_package()

from _sandbox import template  # noqa: E402

template.main(_here)
