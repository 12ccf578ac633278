# SPDX-License-Identifier: Apache-2.0
"""The bill of materials of the shared library, from what Go's linker wrote into it: sbom.py LIBRARY VERSION

``setup.py`` puts it into each wheel (PEP 770). Every module in it has its licence text in
``packaging/licenses``; a test compares the two.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

LICENSES = {  # by module; the texts are in packaging/licenses
    "github.com/ebitengine/purego": ("Apache-2.0", "purego.txt"),
    "golang.org/x/sys": ("BSD-3-Clause", "golang.org-x-sys.txt"),
    "std": ("BSD-3-Clause", "go.txt"),
}


def modules(library: Path) -> list[tuple[str, str]]:
    """The modules linked into a library as (path, version), Go's own library first, as ``std``."""
    command = [os.environ.get("GO", "go"), "version", "-m", str(library)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    found = [("std", lines[0].rsplit(": ", 1)[1].removeprefix("go"))]
    for line in lines[1:]:
        fields = line.split()
        if fields and fields[0] == "dep":
            found.append((fields[1], fields[2]))
    return found


def bill(library: Path, version: str) -> str:
    """A CycloneDX 1.6 document as JSON. It has no time and no serial number, so that builds repeat."""
    components = []
    for name, got in modules(library):
        if name not in LICENSES:
            raise SystemExit(
                f"sbom.py: module {name} {got} has no licence in packaging/licenses; add it there and here"
            )
        components.append(
            {
                "type": "library",
                "name": name,
                "version": got,
                "purl": f"pkg:golang/{name}@{got}",
                "licenses": [{"license": {"id": LICENSES[name][0]}}],
            }
        )
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "name": "mast3r-runtime",
                "version": version,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": components,
    }
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    print(bill(Path(sys.argv[1]), sys.argv[2]), end="")
