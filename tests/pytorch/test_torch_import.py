"""Importing: torch stays optional, and its absence is explained in one line."""

import subprocess
import sys

WITHOUT_TORCH = """
import sys, importlib.abc
class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "torch" or name.startswith("torch."):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocked())
import retrax
try:
    import retrax.torch
except ImportError as error:
    print(error)
"""


def test_without_torch_the_import_says_what_to_install():
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=True, timeout=120
    )
    assert result.stdout == 'retrax.torch needs PyTorch: pip install "retrax[torch]", or ".[torch]" in a checkout\n'


def test_retrax_alone_does_not_import_torch():
    code = "import sys, retrax; assert 'torch' not in sys.modules and 'retrax.torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
