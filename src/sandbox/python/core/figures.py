"""Figures of matplotlib: show() shows them and closes them, and those that are open at the end are shown then.

A figure that was shown or saved and not changed since is not shown again. matplotlib notes in `stale` whether one was changed since it
was drawn, whoever drew it; so before each drawing that is taken over.
"""

import functools
import io
import os
import sys
import weakref

from . import own_files, pictures, stage

_states = weakref.WeakKeyDictionary()  # figure: State
_plain_savefig = None
_pausing = 0


class State:
    """name: under which it was shown, or None. saved: digests of files that hold it as it is. changed: it was drawn with a
    change since."""

    def __init__(self):
        self.name = None
        self.saved = []
        self.changed = False


def _state(figure):
    if figure not in _states:
        _states[figure] = State()
    return _states[figure]


def _is_changed(figure):
    return figure.stale or figure in _states and _states[figure].changed


def _settle(figure, changed=False):
    """After a drawing of ours: whether what was shown or saved last is another picture."""
    _state(figure).changed = changed
    figure.stale = False


def _class():
    return getattr(sys.modules.get("matplotlib.figure"), "Figure", None)


def is_figure(one):
    kind = _class()
    return isinstance(kind, type) and isinstance(one, kind)


def _managers():
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    return [] if helpers is None else [manager for _, manager in sorted(helpers.Gcf.figs.items())]


def show(to, figure):
    """Shows a figure as it is now; not if it is shown already."""
    state = _state(figure)
    if _is_changed(figure):
        state.saved.clear()
    elif state.name is not None:
        return
    if len(figure.get_children()) < 2:
        return  # nothing but its background: as in a notebook
    number = getattr(figure, "number", None)
    name = f"figure {number}" if number is not None else to.name("unnumbered figure")
    if not to.has_room(name):
        return
    try:
        data = _drawn(figure)
    except Exception as error:
        to.failed(name, error, "could not be drawn")
        return
    to.image(name, data, state.saved)
    state.name = name
    _settle(figure)


def _drawn(figure):
    """PNG. As the code has made it, with fewer dots per inch where it would be larger than what models take."""
    longest = max(figure.get_size_inches())
    dots = figure.dpi if longest * figure.dpi <= pictures.SIDE else pictures.SIDE / longest
    file = io.BytesIO()
    (_plain_savefig or type(figure).savefig)(figure, file, format="png", dpi=dots)
    return file.getvalue()


def show_open(to, close=False):
    """All figures that pyplot knows."""
    for manager in _managers():
        try:
            show(to, manager.canvas.figure)
        except Exception as error:
            to.failed(f"figure {manager.num}", error, "could not be drawn")
        if close:
            sys.modules["matplotlib.pyplot"].close(manager.num)


def hook_pyplot(module):
    """In matplotlib.pyplot, when it has been imported."""
    plain_pause, plain_show = module.pause, module.show

    @functools.wraps(plain_show)
    def show(*args, **kwargs):
        to = stage.current()
        if to is not None and not _pausing:
            waits = kwargs.get("block", args[0] if args else None)
            show_open(to, close=waits is not False)

    @functools.wraps(plain_pause)
    def pause(interval):
        global _pausing
        _pausing += 1  # it calls show(), for each step of an animation
        try:
            return plain_pause(interval)
        finally:
            _pausing -= 1

    module.show, module.pause = show, pause


def hook_figure(module):
    """In matplotlib.figure, when it has been imported."""
    global _plain_savefig
    kind = module.Figure
    _plain_savefig = kind.savefig
    plain_draw, plain_savefig, plain_show = kind.draw, kind.savefig, kind.show

    @functools.wraps(plain_draw)
    def draw(self, *args, **kwargs):
        if self.stale and self in _states:
            _states[self].changed = True
        return plain_draw(self, *args, **kwargs)

    @functools.wraps(plain_savefig)
    def savefig(self, fname, *args, **kwargs):
        changed = _is_changed(self)
        try:
            result = plain_savefig(self, fname, *args, **kwargs)
        finally:
            _settle(self, changed)  # saving it has drawn it
        try:
            _note_saved(self, fname, kwargs.get("format"), changed)
        except Exception:
            pass  # then it may be shown twice
        return result

    @functools.wraps(plain_show)
    def show_one(self, *args, **kwargs):
        to = stage.current()
        if to is not None:
            show(to, self)

    kind.draw, kind.savefig, kind.show = draw, savefig, show_one


def _note_saved(figure, fname, form, changed):
    to = stage.current()
    if to is None or not isinstance(fname, (str, os.PathLike)):
        return
    path = os.path.abspath(os.fspath(fname))
    if not os.path.splitext(path)[1]:
        path += "." + (form or sys.modules["matplotlib"].rcParams["savefig.format"])
    state = _state(figure)
    if changed:
        state.saved.clear()
        state.name = None
    _settle(figure)
    data = own_files.read(path)
    if data is None:
        return
    digest = own_files.digest(data)
    state.saved.append(digest)
    if state.name is not None:
        to.saved(state.name, digest)
