"""A small part of the site, built as `make docs` builds it but without running examples, in a real browser."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MATHJAX = ROOT / "build" / "mathjax"
DRIVER, BROWSER = shutil.which("chromedriver"), shutil.which("chromium")
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--no-first-run"),
)
INDEX = "# Some pages\n\n```{toctree}\nhow-it-works\napi/methods\ngallery/index\n```\n"

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not (DRIVER and BROWSER), reason="needs Debian's chromium and chromium-driver"),
    # selenium leaves the closing of its sockets and pipes to the garbage collector
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Two pages and an empty gallery; MathJax only where an earlier `make docs` has fetched it."""
    root = tmp_path_factory.mktemp("site")
    docs = root / "docs"
    for folder in ("extensions", "static"):
        shutil.copytree(ROOT / "docs" / folder, docs / folder, ignore=shutil.ignore_patterns("__pycache__"))
    (docs / "api").mkdir()
    for page in ("conf.py", "how-it-works.md", "api/methods.md"):
        shutil.copy(ROOT / "docs" / page, docs / page)
    (docs / "index.md").write_text(INDEX, encoding="utf-8")
    (root / "examples").mkdir()
    shutil.copy(ROOT / "examples" / "README.rst", root / "examples")
    shutil.copy(ROOT / "examples" / "own_method.py", root / "examples")
    if MATHJAX.exists():
        shutil.copytree(MATHJAX, root / "build" / "mathjax")
    command = [sys.executable, "-m", "sphinx", "-q", "-D", "plot_gallery=0", "-D", "reference_execute=0"]
    environment = {**os.environ, "PATH": ""}  # no npm: tests stay away from the network
    done = subprocess.run(
        [*command, str(docs), str(root / "html")], capture_output=True, text=True, env=environment, timeout=500
    )
    assert done.returncode == 0, done.stderr
    return root / "html"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = BROWSER
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}", "--window-size=1300,900"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


def waited(browser, script):
    """The script's first true answer."""
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, 60).until(lambda driver: driver.execute_script(f"return {script}"))


def test_nothing_is_asked_of_others_and_search_works(site, browser):
    for page in ("index", "how-it-works", "api/methods", "gallery/own_method"):
        browser.get((site / f"{page}.html").as_uri())
    browser.get((site / "search.html").as_uri() + "?q=recursive")
    assert waited(browser, "document.querySelectorAll('#search-results li').length") >= 1
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    assert len(asked) > 5
    assert [url for url in asked if not url.startswith(("file:", "data:", "chrome"))] == []
    missing = "tex-svg.js" if not MATHJAX.exists() else "nothing"
    assert [entry for entry in browser.get_log("browser") if missing not in entry["message"]] == []


def test_light_dark_and_narrow(site, browser):
    browser.get((site / "api" / "methods.html").as_uri())
    colour = "getComputedStyle(document.body).backgroundColor"
    themes = [f"document.body.dataset.theme = '{theme}'; return {colour}" for theme in ("light", "dark")]
    colours = [browser.execute_script(theme) for theme in themes]
    assert colours[0] != colours[1]
    browser.set_window_size(400, 800)
    wider = "return document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert not browser.execute_script(wider), "the page scrolls sideways on a phone"


@pytest.mark.skipif(not MATHJAX.exists(), reason="needs MathJax, which `make docs` fetches")
def test_formulas_are_typeset(site, browser):
    browser.get((site / "how-it-works.html").as_uri())
    formulas = browser.execute_script("return document.querySelectorAll('.math').length")
    assert formulas > 5
    assert waited(browser, f"document.querySelectorAll('.math mjx-container svg').length >= {formulas}")
