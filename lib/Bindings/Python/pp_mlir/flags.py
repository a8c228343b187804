"""Keyword arguments as flags of the tools."""

import os

from .errors import UsageError


def text_of(value):
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, (str, int, os.PathLike)):
        return os.fspath(value) if isinstance(value, os.PathLike) else str(value)
    raise UsageError(f"{value!r} is no value of a flag: a number, a text, a path, or a list or dictionary of them is")


def flags_of(options):
    """`{"batch": 8, "dim": {"seq": 32}, "dry_run": True}` as `--batch=8 --dim=seq=32 --dry-run`; None is left out."""
    flags = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is None:
            continue
        if isinstance(value, bool):
            flags.append(flag if value else flag + "=false")
        elif isinstance(value, dict):
            for key, each in value.items():
                between = "x" if name == "shape" else ","
                text = between.join(map(text_of, each)) if isinstance(each, (list, tuple)) else text_of(each)
                flags.append(f"{flag}={key}={text}")
        elif isinstance(value, (list, tuple)):
            flags.append(f"{flag}={','.join(map(text_of, value))}")
        else:
            flags.append(f"{flag}={text_of(value)}")
    return flags
