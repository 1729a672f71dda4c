"""The page: self-contained, escaped, complete; and the report's other files."""

import dataclasses
import html.parser
import json
import re

import pytest

from retrax.experiments import page, reporting, storage
from retrax.experiments.encoding import to_json
from retrax.experiments.specs import UsageError
from retrax.experiments.storage import Store

from .conftest import made_panel, made_result, made_series


class Reader(html.parser.HTMLParser):
    """Collects tags, and refuses ones that do not match."""

    VOID = ("meta", "link", "br")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag, attrs):
        """Note an opening tag."""
        if tag not in self.VOID:
            self.open.append(tag)
        self.addresses += [value for name, value in attrs if name in ("href", "src", "action")]
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_endtag(self, tag):
        """Match a closing tag."""
        assert self.open.pop() == tag


def read(text):
    """The page, parsed."""
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    return reader


@pytest.fixture
def text(paper_like):
    return page.render({"pca-syn1": paper_like})


def test_the_page_needs_nothing_from_elsewhere(text):
    reader = read(text)
    assert all(address.startswith(("#", "data:,")) for address in reader.addresses)
    assert set(re.findall(r"https?://[^\s\"'<]+", text)) <= {"http://www.w3.org/2000/svg"}
    assert "@import" not in text
    assert "@@" not in text


def test_links_lead_somewhere_and_ids_are_unique(text):
    reader = read(text)
    assert len(set(reader.ids)) == len(reader.ids)
    assert {address[1:] for address in reader.addresses if address.startswith("#")} <= set(reader.ids)


def test_texts_are_escaped(text):
    assert "Made by &lt;hand&gt; &amp; not run" in text
    assert "<hand>" not in text


def test_data_cannot_end_the_script(paper_like):
    text = page.render({"pca-syn1": dataclasses.replace(paper_like, panels=(made_panel("", "</script><b>"),))})
    read(text)
    charts = json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])
    assert charts["pca-syn1"]["title"] == "</script><b>"


def test_every_method_has_a_row_and_a_curve(text, paper_like):
    charts = json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])
    assert len(charts["pca-syn1"]["series"]) == len(paper_like.series)
    body = text.split("Best η₀")[1].split("</table>")[0]
    assert body.count("<tr>") == len(paper_like.series)
    assert [one["shown"] for one in charts["pca-syn1"]["series"]].count(False) == 1


def test_verdicts_are_said_in_words_not_only_in_colour(text):
    assert text.count("holds</span>") >= 2
    assert "RSRM outperforms" in text


def test_a_report_of_nothing_is_refused(out):
    with pytest.raises(UsageError, match="no results"):
        reporting.write_report(Store(out))


def test_a_damaged_result_is_named(paper_like, out):
    content = to_json(paper_like)
    del content["series"][0]["runs"]["gap"]
    storage.write_json(out / "pca-syn1.json", content)
    with pytest.raises(UsageError, match=r"pca-syn1\.json cannot be used: series\[0\]\.runs lacks gap; delete it"):
        reporting.write_report(Store(out))


def test_a_report_writes_the_page_the_tables_and_the_figures(paper_like, out):
    storage.write_json(out / "pca-syn1.json", paper_like)
    said = reporting.write_report(Store(out))
    assert {path.name for path in out.iterdir()} == {"figures", "pca-syn1.json", "report.html", "report.md"}
    assert str(out / "report.html") in said.splitlines()[-2]
    assert "holds (" in said


def test_summing_up_names_the_winner_and_every_verdict(paper_like):
    said = reporting.sum_up(paper_like)
    assert "RSRM-RHO 9.00e-05 with η₀=0.1, ρ₀=0.3" in said
    assert said.count("HOLDS") == 5
    assert "already done" in reporting.sum_up(paper_like, computed=False)


def test_panels_have_charts_of_their_own():
    parts = [made_series("a", [0.1], panel="pca"), made_series("b", [0.1], panel="jd")]
    panels = [made_panel(key, key.upper()) for key in ("pca", "jd")]
    text = page.render({"transports": made_result(*parts, panels=panels, name="transports")})
    assert 'data-chart="transports-pca"' in text
    assert 'data-chart="transports-jd"' in text
