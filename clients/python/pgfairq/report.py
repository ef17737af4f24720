"""What an operator reads in last_error: type, message and frames of an exception."""

from __future__ import annotations

import re
import traceback
from typing import Any, Tuple

LONGEST = 8000
OWN = __file__.rsplit("report.py", 1)[0]
FRAMES = 30

# Where in a last_error its message is over: frames of Python, Node, Ruby and Go, details, causes.
AFTER_MESSAGE = re.compile(r'\s+File "|\s+at |\s*\S+:\d+:in |goroutine \d+ \[|after \w+: |[Cc]aused by:? |  (?:code|detail|hint): ')


def clean(text: str, longest: int = LONGEST) -> str:
    """Text that the server takes: no NUL, no half of a surrogate pair, not beyond a length."""
    text = text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\\0")
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"


def error_head(error: BaseException) -> str:
    """Type and message."""
    try:
        return "".join(traceback.format_exception_only(type(error), error)).strip()
    except Exception:  # an exception whose __str__ fails
        return type(error).__name__


def error_text(error: BaseException) -> str:
    """One line with type and message, then the frames, the innermost last, as Python prints them."""
    message = error_head(error)
    try:
        # Without the frames of this library, which are the same each time.
        frames = traceback.extract_tb(error.__traceback__)
        kept = [frame for frame in frames if not frame.filename.startswith(OWN)] or frames
        where = "".join(traceback.format_list(kept[-FRAMES:]))
        cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if cause is not None:
            where += f"\nafter {type(cause).__name__}: {clean(str(cause), 1000)}"
    except Exception:
        where = ""
    return clean(f"{clean(message, LONGEST // 2)}\n{where}".strip())


def without_frames(last_error: str) -> str:
    """Type and message, of whatever library has written it."""
    lines = last_error.split("\n")
    end = next((n for n, line in enumerate(lines) if n > 0 and AFTER_MESSAGE.match(line)), len(lines))
    return "\n".join(lines[:end]).rstrip()


def without_own_frames(error: BaseException) -> Tuple[Any, Any, Any]:
    """For exc_info of a log: from where the handler was called."""
    found = error.__traceback__
    while found is not None and found.tb_frame.f_code.co_filename.startswith(OWN):
        found = found.tb_next
    return type(error), error, found or error.__traceback__


def first_line(error: BaseException) -> str:
    try:
        return (str(error).strip() or type(error).__name__).splitlines()[0]
    except Exception:
        return type(error).__name__
