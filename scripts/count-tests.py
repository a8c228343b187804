#!/usr/bin/env python3
"""Counts the tests in JUnit files, as ctest and lit write them.

    count-tests.py FILE.xml [NAME-TO-IGNORE...]

Prints `PASSED FAILED SKIPPED`, and the names of failed tests on stderr.
"""

import sys
import xml.etree.ElementTree as ElementTree


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
            print(f"  failed: {name}", file=sys.stderr)
        elif case.find("skipped") is not None or case.get("status") in ("disabled", "notrun"):
            skipped += 1
        else:
            passed += 1
    print(passed, failed, skipped)


if __name__ == "__main__":
    main()
