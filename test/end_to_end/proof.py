"""Notes which written requirements a script has proven, for tool/requirements.

Where TWINBOX_PROOFS names a folder, a line goes into a file there: the ids, the test, and the backend or `all`.
As a program it is `python3 -m unittest` that notes the ids in the names of tests (test_EVB_19_…) that pass.
"""
import os
import pathlib
import re
import sys
import unittest

ID = re.compile(r"(?<![A-Za-z0-9])((?:IBX|OBX|PHD|MBH|EVB)_\d+)(?![0-9])")


def note(ids, test, backend="all"):
    folder = os.environ.get("TWINBOX_PROOFS")
    if folder and ids:
        with open(pathlib.Path(folder) / f"{os.getpid()}.proofs.tsv", "a") as file:
            file.write(f"{','.join(ids)}\t{test}\t{backend}\n")


class NotingResult(unittest.TextTestResult):
    def addSuccess(self, test):
        super().addSuccess(test)
        module, name, method = (["", ""] + test.id().split("."))[-3:]
        note([id.replace("_", "-") for id in ID.findall(method)], f"{module}.py {name}.{method}")


class NotingRunner(unittest.TextTestRunner):
    resultclass = NotingResult


if __name__ == "__main__":
    sys.path.insert(0, os.getcwd())
    unittest.main(module=None, argv=["unittest", *sys.argv[1:]], testRunner=NotingRunner)
