#!/usr/bin/env python3
"""Counts the tests in JUnit files, as ctest and lit write them.

    count-tests.py FILE.xml [NAME-TO-IGNORE...]

Prints `PASSED FAILED SKIPPED`; on stderr the names of failed tests, each below
the end of what it said.
"""

import sys
import xml.etree.ElementTree as ElementTree


LINES_OF_A_FAILURE = 120


def output(case):
    """What a failed test printed: ctest and lit have it in different places."""
    texts = [case.findtext("system-out"), case.findtext("failure"), case.findtext("error")]
    lines = "\n".join(text for text in texts if text).strip().splitlines()
    if len(lines) > LINES_OF_A_FAILURE:
        half = LINES_OF_A_FAILURE // 2
        lines = lines[:half] + ["[...]"] + lines[-half:]
    return lines


def main():
    path, ignored = sys.argv[1], set(sys.argv[2:])
    passed = failed = skipped = 0
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = case.get("name", "?")
        if name in ignored:
            continue
        if case.find("failure") is not None or case.find("error") is not None \
                or case.get("status") == "fail":
            failed += 1
            for line in output(case):
                print(f"    {line[:400]}", file=sys.stderr)
            print(f"  failed: {name}", file=sys.stderr)
        elif case.find("skipped") is not None or case.get("status") in ("disabled", "notrun"):
            skipped += 1
        else:
            passed += 1
    print(passed, failed, skipped)


if __name__ == "__main__":
    main()
