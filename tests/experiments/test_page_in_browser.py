"""The page in a real browser: it loads, toggles and hovering work, and nothing complains."""

import shutil

import pytest

from retrax.experiments import page

DRIVER, BROWSER = shutil.which("chromedriver"), shutil.which("chromium")
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--no-first-run"),
)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not (DRIVER and BROWSER), reason="needs Debian's chromium and chromium-driver"),
    # selenium leaves the closing of its sockets and pipes to the garbage collector
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def browser(tmp_path):
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = BROWSER
    for flag in (*FLAGS, f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1000,1400"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def opened(browser, paper_like, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(page.render({"pca-syn1": paper_like}), encoding="utf-8")
    browser.get(path.as_uri())
    return browser


def curves(browser):
    """The curves that are drawn now."""
    found = browser.find_elements("css selector", "#pca-syn1 svg g[data-curve]")
    return [one.get_attribute("data-curve") for one in found]


def button(browser, attribute):
    """A control of the chart."""
    return browser.find_element("css selector", f"#pca-syn1 button[{attribute}]")


def test_the_page_works(opened):
    before = curves(opened)
    assert "rsrm" in before
    assert "rsrm-rho" not in before

    button(opened, 'data-series="rsgd"').click()
    assert button(opened, 'data-series="rsgd"').get_attribute("aria-pressed") == "false"
    assert curves(opened) == [key for key in before if key != "rsgd"]
    button(opened, 'data-series="rsrm-rho"').click()
    assert "rsrm-rho" in curves(opened)

    chart = "#pca-syn1 .chart svg[role=img]"
    assert opened.find_element("css selector", chart).get_attribute("aria-label").endswith("against SFO")
    button(opened, 'data-axis="time"').click()
    assert opened.find_element("css selector", chart).get_attribute("aria-label").endswith("against Run time (s)")

    from selenium.webdriver import ActionChains, Keys

    values = opened.find_element("css selector", "#pca-syn1 .values")
    assert not values.is_displayed()
    ActionChains(opened).move_to_element(opened.find_element("css selector", chart)).perform()
    assert values.is_displayed()
    lines = values.text.splitlines()
    assert lines[0].startswith("Run time (s) 0.48")
    assert lines[1] == "RSRM-RHO"  # the lowest first
    opened.find_element("css selector", chart).send_keys(Keys.ESCAPE)
    assert not values.is_displayed()
    opened.find_element("css selector", chart).send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert values.is_displayed()

    wider = "return document.documentElement.scrollWidth > document.documentElement.clientWidth"
    opened.set_window_size(400, 800)
    assert not opened.execute_script(wider), "the page scrolls sideways on a phone"
    assert opened.get_log("browser") == []
