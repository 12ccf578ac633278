# SPDX-License-Identifier: Apache-2.0
"""What a release needs to know: release.py check TAG | notes TAG | recipes DIST

``check`` compares the tag with the version in the sources and wants a section of CHANGELOG.md for
it; ``notes`` prints that section. ``recipes`` writes the recipes for conda-forge and Homebrew
beside the sdist in DIST, with its checksum.
"""

import hashlib
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def version() -> str:
    """The version in the sources."""
    text = (ROOT / "python" / "mast3r_runtime" / "_library" / "version.py").read_text()
    return re.search(r'__version__ = "(.+)"', text)[1]


def notes(wanted: str) -> str:
    """The section of CHANGELOG.md for a version, without its heading; "" where there is none."""
    text = (ROOT / "CHANGELOG.md").read_text()
    found = re.search(rf"^## \[?{re.escape(wanted)}\]?.*?\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else ""


def recipes(dist: Path) -> list[Path]:
    """Write the recipes for the sdist in ``dist`` beside it."""
    sdist = dist / f"mast3r_runtime-{version()}.tar.gz"
    if not sdist.exists():
        sys.exit(f"release.py: {sdist} is not there; packaging/wheels/build.py sdist makes it")
    digest = hashlib.sha256(sdist.read_bytes()).hexdigest()
    written = []
    for template in sorted((ROOT / "packaging").glob("*/*.in")):
        text = template.read_text().replace("@VERSION@", version()).replace("@SHA256@", digest)
        written.append(dist / "recipes" / template.stem)
        written[-1].parent.mkdir(exist_ok=True)
        written[-1].write_text(text)
    return written


def main() -> None:
    if len(sys.argv) != 3 or sys.argv[1] not in ("check", "notes", "recipes"):
        sys.exit(__doc__)
    if sys.argv[1] == "recipes":
        print("\n".join(map(str, recipes(Path(sys.argv[2])))))
        return
    wanted = sys.argv[2].removeprefix("v")
    text = notes(wanted)
    if wanted != version():
        sys.exit(f"release.py: tag {sys.argv[2]}, and the sources say {version()}")
    if not text:
        sys.exit(f"release.py: CHANGELOG.md has no section for {wanted}, or an empty one")
    if sys.argv[1] == "notes":
        print(text)


if __name__ == "__main__":
    main()
