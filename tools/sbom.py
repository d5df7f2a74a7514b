"""Write what a release depends on, as a CycloneDX 1.5 bill of materials.

    python tools/sbom.py --output sbom.cdx.json

It is made of requirements/run.txt, so that it holds the digests that an install is
checked against. The same files give the same bytes: no time, no serial number.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)(?:\s*;\s*([^\\\n]+?))?\s*\\?$", re.MULTILINE)
_DIGEST = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_VERSION = re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE)


def components(requirements: str) -> list[dict[str, Any]]:
    """A component for each pinned package, in the order of the file."""
    pins = list(_PIN.finditer(requirements))
    ends = [pin.start() for pin in pins[1:]] + [len(requirements)]
    found = []
    for pin, end in zip(pins, ends, strict=True):
        name, version, marker = pin.groups()
        digests = _DIGEST.findall(requirements, pin.end(), end)
        properties = [{"name": "power:sha256", "value": digest} for digest in digests]
        if marker is not None:
            properties.append({"name": "power:marker", "value": marker})
        found.append(
            {
                "type": "library",
                "bom-ref": f"pkg:pypi/{name}@{version}",
                "name": name,
                "version": version,
                "purl": f"pkg:pypi/{name}@{version}",
                "properties": properties,
            }
        )
    return found


def bill(requirements: str, version: str) -> dict[str, Any]:
    """The whole document."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": f"pkg:pypi/power-spec@{version}",
                "name": "power-spec",
                "version": version,
                "purl": f"pkg:pypi/power-spec@{version}",
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": components(requirements),
    }


def document() -> str:
    """The bill of this tree, as text."""
    match = _VERSION.search((ROOT / "power" / "__init__.py").read_text("utf-8"))
    if match is None:
        raise ValueError("power/__init__.py names no version")
    requirements = (ROOT / "requirements" / "run.txt").read_text("utf-8")
    return json.dumps(bill(requirements, match[1]), indent=1) + "\n"


def main() -> None:
    """Write the bill."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    parser.parse_args().output.write_text(document(), "utf-8")


if __name__ == "__main__":
    main()
