"""The page in a real browser: no errors, no request, numbers in place, keyboard, print, contrast, narrow screens."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace as changed

from fairchain import audit
from fairchain.examples import example
from fairchain.report.findings import Findings
from fairchain.report.page import page, selection_page
from fairchain.report.selection_table import GroupFacts, RowFacts, RowsLeftOut
from tests.report.builders import KINDS, findings, gap, names

pytestmark = pytest.mark.browser
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
# Contrast that WCAG asks of text of ordinary size, and of large or bold text.
ENOUGH, ENOUGH_LARGE = 4.5, 3.0
# What A4 leaves between the margins of a browser, in pixels.
A4 = 718
CONTRAST = """() => {
  const channel = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const parse = (text) => { const n = text.match(/[\\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
  const over = (top, under) => top.slice(0, 3).map((v, i) => v * top[3] + under[i] * (1 - top[3]));
  const behind = (element) => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) layers.push(parse(getComputedStyle(e).backgroundColor));
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255]);
  };
  const bad = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || ["SCRIPT", "STYLE", "TITLE", "DESC"].includes(element.tagName.toUpperCase())) continue;
    const style = getComputedStyle(element);
    const colour = element instanceof SVGElement ? style.fill : style.color;
    const [a, b] = [light(over(parse(colour), behind(element))), light(behind(element))].sort((x, y) => y - x);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.6 && style.fontWeight >= 700);
    const ratio = (a + 0.05) / (b + 0.05);
    const told = `${ratio.toFixed(2)} ${element.tagName} ${element.textContent.slice(0, 40)}`;
    if (ratio < (large ? LARGE : SMALL)) bad.push(told);
  }
  return bad;
}""".replace("LARGE", str(ENOUGH_LARGE)).replace("SMALL", str(ENOUGH))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        sync_playwright = None  # type: ignore[assignment]
    if program is None or sync_playwright is None:
        message = "needs Chromium and playwright: make test-all installs them"
        if os.environ.get("FAIRCHAIN_NO_SKIP"):
            pytest.fail(message)
        pytest.skip(message)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield running
        running.close()


class Visit:
    """A page that is open, with everything the browser complained about or asked for."""

    def __init__(self, browser: Any, path: Path, width: int, scheme: str) -> None:
        self.problems: list[str] = []
        self.requests: list[str] = []
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page = context.new_page()
        self.page.on("console", lambda message: self.problems.append(message.text))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("dialog", lambda dialog: self.problems.append(f"dialog {dialog.message}"))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())


@pytest.fixture
def visit(browser: Any, tmp_path: Path) -> Iterator[Any]:
    opened: list[Visit] = []

    def open_page(html: str, width: int = 1280, scheme: str = "light") -> Visit:
        path = tmp_path / f"report{len(opened)}.html"
        path.write_text(html, encoding="utf-8")
        opened.append(Visit(browser, path, width, scheme))
        return opened[-1]

    yield open_page
    for each in opened:
        each.page.context.close()


def keep(visit: Visit, name: str) -> None:
    """A screenshot for whoever wants to look, where FAIRCHAIN_SCREENSHOTS names a folder."""
    folder = os.environ.get("FAIRCHAIN_SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        visit.page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize(("groups", "units"), [(2, 10), (20, 200)])
def test_the_page_is_quiet_and_fits(visit: Any, groups: int, units: int, width: int, scheme: str) -> None:
    seen = visit(page(findings(groups, units)), width, scheme)
    keep(seen, f"report-{groups}-groups-{width}-{scheme}")
    assert seen.problems == []
    assert len(seen.requests) == 1
    assert not seen.page.evaluate("document.documentElement.scrollWidth > innerWidth")
    assert seen.page.evaluate(CONTRAST) == []


def test_the_page_of_a_real_audit_is_quiet_fits_and_has_its_sections_in_order(browser: Any, tmp_path: Path) -> None:
    audit(example("credit"), tmp_path / "audit")
    for width in (1280, 390):
        seen = Visit(browser, tmp_path / "audit" / "report.html", width, "dark")
        keep(seen, f"credit-{width}-dark")
        assert seen.problems == []
        assert not seen.page.evaluate("document.documentElement.scrollWidth > innerWidth")
        assert seen.page.evaluate(CONTRAST) == []
        assert seen.page.locator("h2").all_inner_texts() == [
            "Selection rates of the groups", "The gap of each pair", "Why: the features behind the gap",
            "One profile, two decisions", "The repair", "What exactly was tested", "About this audit",
            "Check it yourself", "Technical annex",
        ]  # fmt: skip
        seen.page.context.close()


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_pages_of_other_kinds_of_audits_are_quiet_and_fit(visit: Any, kind: str) -> None:
    for width, scheme in ((1280, "dark"), (390, "light")):
        seen = visit(page(KINDS[kind]()), width, scheme)
        keep(seen, f"{kind}-{width}-{scheme}")
        assert seen.problems == []
        assert not seen.page.evaluate("document.documentElement.scrollWidth > innerWidth")
        assert seen.page.evaluate(CONTRAST) == []


def test_every_plot_shows_its_numbers(visit: Any) -> None:
    found = findings(5, 40)
    seen = visit(page(found))
    # Folded parts are printed open, and so are they here.
    seen.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    for plot in ("intervals", "flow", "units", "front", "dumbbells"):
        box = seen.page.locator(f"svg.{plot}").first.bounding_box()
        assert box["width"] > 300
        assert box["height"] > 100
    dots = seen.page.eval_on_selector_all(
        "#groups ~ figure svg.wide .row",
        "rows => rows.map(r => [+r.dataset.estimate, +r.querySelector('.dot').getAttribute('cx')])",
    )
    values = [group.estimate for group in found.groups]
    assert [value for value, _ in dots] == values
    places = [place for _, place in dots]
    assert places == sorted(places)
    assert seen.page.locator(".matrix tbody td[data-row]").count() == 5 * 4 // 2
    assert seen.page.locator("svg.front.wide .point.chosen").count() == 1


def test_everything_can_be_reached_with_the_keyboard(visit: Any) -> None:
    seen = visit(page(findings(3, 20)))
    seen.page.locator("#chain summary").press("Enter")
    seen.page.evaluate("document.activeElement.blur(); getSelection().removeAllRanges(); document.body.focus()")
    seen.page.mouse.click(1, 1)
    reached = []
    for _ in range(80):
        seen.page.keyboard.press("Tab")
        reached.append(
            seen.page.evaluate("document.activeElement.getAttribute('class') || document.activeElement.tagName")
        )
    assert reached[0] == "skip"
    assert {"A", "scroll", "state", "BUTTON"} <= set(reached)
    seen.page.locator("svg.flow .state").first.focus()
    assert seen.page.locator("svg.flow.off .ribbon.on").count() > 0


def test_every_image_and_table_has_a_name(visit: Any) -> None:
    seen = visit(page(findings()))
    unnamed = "all => all.filter(e => !(e.getAttribute('aria-label') || e.querySelector('caption, title'))).length"
    assert seen.page.eval_on_selector_all("svg, table, [role=group]", unnamed) == 0
    assert seen.page.evaluate("document.documentElement.lang") == "en"
    assert seen.page.evaluate("new Set([...document.querySelectorAll('[id]')].map(e => e.id)).size") == (
        seen.page.locator("[id]").count()
    )


@pytest.mark.parametrize("font", ["DejaVu Sans", "Liberation Sans", "monospace"])
@pytest.mark.parametrize("groups", [2, 6, 7, 12, 13, 20])
def test_every_column_is_on_the_screen_and_on_the_paper(visit: Any, groups: int, font: str) -> None:
    """A table of pairs can be scrolled where the screen is narrow; paper cannot be. No common font changes that."""
    seen = visit(page(findings(groups, 200)))
    seen.page.add_style_tag(content=f"body {{ font-family: '{font}', {font} !important }}")
    cut = "all => all.filter(e => e.scrollWidth > e.clientWidth).map(e => e.textContent.slice(0, 80))"
    if groups < 13:
        assert seen.page.eval_on_selector_all(".scroll", cut) == []
    seen.page.set_viewport_size({"width": A4, "height": 1000})
    seen.page.emulate_media(media="print", color_scheme="dark")
    keep(seen, f"print-{groups}-groups-{font.split(maxsplit=1)[0]}")
    assert seen.page.eval_on_selector_all(".scroll, .matrix td", cut) == []
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= A4
    assert seen.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert seen.page.evaluate(CONTRAST) == []


def full(groups: int) -> Findings:
    """Findings whose table of selection rates has every column, with a smallest ratio that is the verdict's."""
    found = findings(groups, 20)
    every = names(groups)
    facts = RowFacts(
        tuple(GroupFacts(name, 12_345, 11_111, 612) for name in every),
        (RowsLeftOut("a category of many words that is too small to be compared", 1234, 567, "too small", 321),),
        0.5,
    )
    told = changed(found.verdict, kind="ratio", threshold=0.8, gap=gap(0.5, 0.02, every[-1], every[0]))
    told = changed(told, groups=tuple(changed(g, evaluations=1_234_567) for g in told.groups))
    return replace(found, verdict=told, facts={told.question: facts})


@pytest.mark.parametrize("font", ["DejaVu Sans", "DejaVu Serif", "Liberation Sans", "DejaVu Sans Mono"])
def test_the_table_with_every_column_is_whole_on_paper(visit: Any, font: str) -> None:
    """The widest table had numbers that could not be broken, and was cut on paper."""
    for html in (page(full(6)), selection_page(full(6))):
        seen = visit(html, width=A4)
        heads = seen.page.locator("table[data-tools] thead").first.inner_text()
        assert all(head in heads for head in ("assessed", "impact ratio", "scoring ratio", "labelled rows", "accuracy"))
        seen.page.add_style_tag(content=f"* {{ font-family: '{font}' !important }}")
        seen.page.emulate_media(media="print")
        cut = "all => all.filter(e => e.scrollWidth > e.clientWidth).map(e => e.textContent.slice(0, 80))"
        assert seen.page.eval_on_selector_all(".scroll, td, th, pre", cut) == []
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= A4


def test_a_number_with_many_digits_near_the_threshold_fits_its_cell_on_paper(visit: Any) -> None:
    found = findings(20, 20)
    assert found.all_pairs is not None
    near = tuple(changed(pair, estimate=0.1000004) for pair in found.all_pairs.pairs)
    seen = visit(page(replace(found, all_pairs=changed(found.all_pairs, pairs=near))), width=A4)
    seen.page.emulate_media(media="print")
    assert seen.page.locator(".matrix .gap").nth(5).inner_text() == "-0.1000004"
    cut = "all => all.filter(e => e.scrollWidth > e.clientWidth).length"
    assert seen.page.eval_on_selector_all(".matrix td", cut) == 0


def test_on_paper_headings_and_words_stay_with_what_they_introduce(visit: Any) -> None:
    seen = visit(page(findings(8, 60)))
    seen.page.emulate_media(media="print")
    apart = """all => all.filter(e => e.nextElementSibling && getComputedStyle(e).breakAfter !== "avoid")
        .map(e => e.textContent.slice(0, 60))"""
    introduce = "h2, h3, summary, p:has(+ figure), p:has(+ .scroll), p:has(+ .cards), p:has(+ p + figure)"
    assert seen.page.eval_on_selector_all(introduce, apart) == []
    broken = "all => all.filter(e => getComputedStyle(e).breakInside !== 'avoid').length"
    assert seen.page.eval_on_selector_all("figure, tr, thead, .card, .verdict, p", broken) == 0
    # A browser does not repeat a header with a button in it on the next page.
    assert seen.page.locator("thead button").count() == 0
    assert seen.page.locator("thead [role=button]").count() > 0


@pytest.mark.parametrize("plot", ["intervals", "dumbbells"])
def test_on_a_phone_no_line_crosses_a_name_or_a_number(visit: Any, plot: str) -> None:
    seen = visit(page(findings(5, 20)), width=390)
    crossed = """all => all.filter(text => {
      text.scrollIntoView({block: "center"});
      const box = text.getBoundingClientRect();
      const under = [...Array(40).keys()].flatMap((step) => {
        const found = document.elementsFromPoint(box.left + box.width * (step + 0.5) / 40, box.top + box.height / 2);
        const ground = found.findIndex((e) => e.matches(".lane"));
        return found.slice(0, ground < 0 ? undefined : ground);
      });
      return under.some((e) => e.matches(".band, .edge, .grid, .zero"));
    }).map((text) => text.textContent)"""
    lines = f"svg.{plot}.narrow .name, svg.{plot}.narrow .number"
    assert seen.page.locator(lines).count() >= 10
    assert seen.page.eval_on_selector_all(lines, crossed) == []
    # Without the ground they are crossed: the check sees it.
    seen.page.add_style_tag(content="svg .lane { display: none; } svg .grid { stroke-width: 30px; }")
    assert seen.page.eval_on_selector_all(lines, crossed) != []


def test_a_table_can_be_copied_to_a_spreadsheet_without_acting_there(visit: Any) -> None:
    found = findings(3, 20)
    formula = changed(found.verdict, groups=tuple(changed(g, name=f"=1+{i}") for i, g in enumerate(found.groups)))
    seen = visit(page(replace(found, verdict=formula, all_pairs=None, repair=None)))
    seen.page.evaluate("addEventListener('copy', () => { window.copied = document.activeElement.value; }, true)")
    seen.page.locator(".copy").first.click()
    lines = [line.split("\t") for line in seen.page.evaluate("window.copied").split("\n")]
    assert lines[0][:3] == ["group", "assessed", "selected"]
    assert [line[0] for line in lines[1:]] == ["'=1+0", "'=1+1", "'=1+2"]
    assert {len(line) for line in lines} == {5}
    assert seen.page.locator(".copy").first.inner_text() == "Copied"


def test_a_caption_is_read_whole_beside_a_wide_table(visit: Any) -> None:
    seen = visit(page(findings(20, 20)), width=1000)
    wide = seen.page.eval_on_selector_all(
        ".scroll caption",
        "all => all.map(e => e.getBoundingClientRect().right - e.closest('.scroll').getBoundingClientRect().right)",
    )
    assert max(wide) <= 0


def test_tables_can_be_sorted_and_filtered(visit: Any) -> None:
    seen = visit(page(findings(12, 20)))
    rows = "#groups ~ .scroll table[data-tools] tbody tr"
    rate = "rows => rows.filter(r => !r.hidden).map(r => parseFloat(r.cells[3].textContent))"
    heads = seen.page.locator("#groups ~ .scroll table[data-tools] thead [role=button]")
    heads.nth(3).click()
    heads.nth(3).press("Enter")
    sizes = seen.page.eval_on_selector_all(rows, rate)
    assert sizes == sorted(sizes, reverse=True)
    assert len(sizes) == 12
    seen.page.locator("input.filter").first.fill("group 3")
    assert len(seen.page.eval_on_selector_all(rows, rate)) == 1


def test_what_is_wider_than_a_phone_says_so(visit: Any) -> None:
    seen = visit(page(findings(20, 20)), width=390)
    cut = "all => all.filter(e => e.scrollWidth > e.clientWidth + 1 && !e.nextElementSibling?.matches('.hint')).length"
    assert seen.page.eval_on_selector_all(".scroll", cut) == 0
    assert seen.page.locator(".hint").count() > 0


def test_it_prints(visit: Any) -> None:
    printed = visit(page(findings(8, 60)), scheme="dark").page.pdf(format="A4")
    assert printed.startswith(b"%PDF")
    assert len(printed) > 20_000


def test_the_check_of_contrast_sees_pale_text(visit: Any) -> None:
    pale = page(findings(2, 10)).replace("--soft: #56606e", "--soft: #b8bec6")
    assert visit(pale).page.evaluate(CONTRAST) != []
