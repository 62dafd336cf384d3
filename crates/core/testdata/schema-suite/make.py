"""Makes the files beside it from the JSON-Schema-Test-Suite, as the source package of PyPI's jsonschema has it:

    pip download --no-deps --no-binary :all: jsonschema==4.26.0 && tar xzf jsonschema-4.26.0.tar.gz
    python make.py jsonschema-4.26.0/json
"""

import json
import pathlib
import shutil
import sys

# Schemas that are fetched, and vocabularies of one's own: a tool has neither.
LEFT_OUT = {"refRemote", "vocabulary"}
OPTIONAL = [
    "anchor", "bignum", "dependencies-compatibility", "ecmascript-regex", "float-overflow", "id", "non-bmp-regex",
    "refOfUnknownKeyword", "unknownKeyword",
]

suite, here = pathlib.Path(sys.argv[1]), pathlib.Path(__file__).parent
shutil.copy(suite / "LICENSE", here / "LICENSE")
for draft in ["draft7", "draft2020-12"]:
    tests = suite / "tests" / draft
    files = sorted(tests.glob("*.json")) + [tests / "optional" / f"{name}.json" for name in OPTIONAL]
    files = [file for file in files if file.exists() and file.stem not in LEFT_OUT]
    groups = {str(file.relative_to(tests).with_suffix("")): json.loads(file.read_text()) for file in files}
    lines = [
        f"{json.dumps(name)}: [\n" + ",\n".join(json.dumps(group, separators=(",", ":")) for group in group_list) + "\n]"
        for name, group_list in groups.items()
    ]
    (here / f"{draft}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
