"""display(), the last expression's value, and the figures that are open at the end.

Nothing here is looked at by a run that shows nothing, but for a glance at sys.modules at its end, and, where Pillow is
loaded, into its workspace.
"""

import sys

from . import figures, own_files, pictures, representation, stage, tables


class DisplayHandle:
    """What display(display_id=...) returns. What was shown can't be changed any more: an update is shown after it."""

    def __init__(self, display_id):
        self.display_id = display_id

    def display(self, obj, **kwargs):
        display(obj)

    def update(self, obj, **kwargs):
        display(obj)


def display(*objs, raw=False, display_id=None, **_):
    """Shows objects to the model, in this order: figures and images as images, all other as text.

    What else IPython's function of this name takes is taken, and means nothing here.
    """
    if stage.current() is not None:
        with stage.lock:
            for one in objs:
                _show(stage.current(), one, raw)
    if display_id is not None and display_id is not False:
        return DisplayHandle("1" if display_id is True else display_id)


display.__module__ = "builtins"


def _show(to, one, raw):
    name = to.name("display")
    try:
        if figures.is_figure(one):
            figures.show(to, one)
        elif pictures.is_picture(one):
            _picture(to, one)
        elif tables.is_table(one):
            to.text(name, tables.text(one))
        elif type(one) is str:
            to.text(name, one)
        else:
            rich = representation.of_bundle(one) if raw and isinstance(one, dict) else representation.of(one)
            _note_failures(to, rich, name)
            if not rich.done and not _rich(to, rich, name, to.text):
                to.text(name, repr(one))
    except Exception as error:
        to.failed(name, error)


def last(to, value, reports):
    """The last expression's value: its repr, and what shows more of it. A text of the second kind is shown in the place of the first."""
    if reports.is_forked:
        return  # a forked child that fell off the end of the script
    name = "the last value"
    try:
        reports.value(repr(value))
    except Exception as error:
        to.failed(name, error)
    try:
        if figures.is_figure(value):
            figures.show(to, value)
        elif pictures.is_picture(value):
            _picture(to, value)
        elif tables.is_table(value):
            to.value(tables.text(value))
        else:
            rich = representation.of(value)
            _note_failures(to, rich, name)
            if not rich.done:
                _rich(to, rich, name, lambda _, text: to.value(text))
    except Exception as error:
        to.failed(name, error)


def _picture(to, one):
    name = to.name("image")
    if to.has_room(name):
        data, remark = pictures.encoded(one)
        if remark:
            to.left_out(name, remark)
        to.image(name, data)


def _note_failures(to, rich, name):
    for method, error in rich.failures:
        to.failed(name, error, f"could not be shown by {method}()")


def _rich(to, rich, name, show_text):
    """Shows the richest of the representations that a model can read; False where there is none."""
    if rich.image is not None:
        to.image(to.name("image"), rich.image)
    elif rich.text is not None:
        show_text(name, rich.text)
    elif rich.svg is not None and len(rich.svg) <= representation.SVG_CHARS:
        to.text(name, rich.svg)
    elif rich.svg is not None:
        to.left_out(name, f"is an SVG image of {len(rich.svg)} characters, and nothing here can draw it: make it a PNG")
        return False
    else:
        return False
    return True


def finish(to, reports):
    """At the end, however the code came to it: figures that are still open, as in a notebook, and large images among the files."""
    if reports.is_forked:
        return
    try:
        if "matplotlib.pyplot" in sys.modules:
            figures.show_open(to)
    except BaseException as error:
        to.failed("figures", error, "could not be drawn")
    try:
        own_files.show_large(to)
    except BaseException:
        pass  # then the worker shows them as they are
