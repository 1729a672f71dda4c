"""How `make docs` builds the site: these pages, the reference from docstrings, the gallery from `examples/`.

Nothing on the finished site comes from elsewhere: theme, search and formulas work without a network.
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "extensions"))

import formulas  # noqa: E402
import gallery  # noqa: E402

import retrax  # noqa: E402

project = "Retrax"
author = "The Retrax developers"
project_copyright = author
version = release = retrax.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax", "reference", "gallery"]
extensions += ["sphinx_gallery.gen_gallery"]
exclude_patterns = ["extensions"]
suppress_warnings = [
    "config.cache",  # functions and classes among the settings below are no reason to warn
    "sphinx_gallery.space_in_filename",  # a checkout may lie in a folder with a space; the examples do not
]

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4  # links such as promises.md#numbers
default_role = "code"

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the signatures have them in the source; here they would only be long
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True
napoleon_google_docstring = False
napoleon_use_ivar = True

html_theme = "furo"
html_title = f"Retrax {version}"
html_static_path = ["static", *formulas.static_path(HERE.parent)]
html_css_files = ["retrax.css"]
html_show_sphinx = False
html_copy_source = False
html_show_search_summary = False  # excerpts are fetched, which browsers refuse on file:// pages
mathjax_path = formulas.FILE
mathjax3_config = {"options": {"enableMenu": False}}  # the menu would ask a server for speech rules

sphinx_gallery_conf = gallery.settings(HERE.parent / "examples", HERE / "gallery")
