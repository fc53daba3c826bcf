"""What is said of an error of our own, without the module traceback: what a template imports, all its children carry."""

import sys


def describe(error):
    """Kind, message and place of an error, in one line."""
    step = error.__traceback__
    while step.tb_next is not None:
        step = step.tb_next
    return f"{type(error).__name__}: {error} ({step.tb_frame.f_code.co_name}, line {step.tb_lineno})"


def show():
    """Prints the error that is being handled, with its traceback."""
    sys.__excepthook__(*sys.exc_info())
