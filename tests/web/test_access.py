# SPDX-License-Identifier: Apache-2.0
"""For everybody: axe, keyboard alone, both themes, a phone, Chinese, reduced motion, 200 % zoom, no WebAssembly."""

from __future__ import annotations

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from conftest import PANELS, Playground

PHONE = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 1, "has_touch": True, "locale": "en-GB"}
WIDE = {"viewport": {"width": 1280, "height": 900}, "locale": "en-GB"}


#: Of each curve what is left without its colour, and the colour's number: those with the same dashes have other marks. A path of marks: M, where the mark is, its shape.
PATTERNS = """all => all.map(g => [g.getAttribute('class'), g.querySelector('path.line')?.getAttribute('stroke-dasharray'), g.querySelector('path.mark')?.getAttribute('d').split('M')[1].replace(/^[^m]*/, '')].join(' '))"""


def opened(browser, address, options) -> Playground:
    one = Playground(browser.new_context(**options).new_page(), address)
    one.open()
    return one


def finished(one: Playground) -> None:
    assert one.elsewhere == [] and one.problems == []
    one.page.context.close()


def no_overflow(one: Playground) -> None:
    """Nothing makes the page itself scroll sideways."""
    width, room = one.page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert width <= room, (one.page.url, width, room)


def violations(one: Playground) -> list[str]:
    found = Axe().run(one.page).response["violations"]
    return [f"{one.page.url}: {rule['id']}: {node['html'][:160]}" for rule in found for node in rule["nodes"]]


@pytest.mark.short
def test_axe_finds_nothing_on_the_first_page_and_two_panels(browser, address):
    one = opened(browser, address, WIDE)
    found = violations(one)
    for panel in ("pairs", "attention"):
        one.go(panel)
        found += violations(one)
    assert found == []
    finished(one)


@pytest.mark.parametrize("options", [WIDE, {**WIDE, "color_scheme": "dark"}, PHONE], ids=["light", "dark", "phone"])
def test_axe_finds_nothing_anywhere(browser, address, options):
    one = opened(browser, address, options)
    found = []
    for panel in PANELS:
        one.go(panel)
        if one.page.locator("#panels details").count():
            one.page.locator("#panels details summary").first.click()
        found += violations(one)
    assert found == []
    finished(one)


@pytest.mark.short
def test_every_figure_has_a_sentence_a_table_and_patterns(playground):
    playground.open()
    seen = set()
    for panel in PANELS:
        playground.go(panel)
        for name in playground.shown_figures():
            seen.add(name)
            card = playground.page.locator(f'figure[data-figure="{name}"]')
            sentence = card.locator("figcaption").inner_text()
            assert re.search(r"\d", sentence) and sentence.endswith("."), (name, sentence)
            card.locator("summary").click()
            card.locator("table td").first.wait_for(timeout=10_000)  # it is filled after the click, when the browser says that it is open
            looks = card.locator("g.curve").evaluate_all(PATTERNS)
            assert len(set(looks)) == len(looks), (name, looks)
            card.locator("summary").click()
    assert len(seen) >= 25, sorted(seen)


def test_tables_and_csv_have_the_figures_numbers(playground, tmp_path):
    playground.open("decay")
    figure = playground.figure("decay")["panels"][0]["curves"]
    with playground.page.expect_download() as waiting:
        playground.page.locator('[data-figure="decay"]').get_by_role("button", name="CSV").click()
    lines = waiting.value.path().read_text().splitlines()
    rows = [[float(cell) for cell in line.split(",")] for line in lines[1:] if re.match(r"^\d", line)]
    assert [row[0] for row in rows] == figure[0]["x"]
    assert [row[1] for row in rows] == figure[0]["y"]
    with playground.page.expect_download() as waiting:
        playground.page.locator('[data-figure="decay"]').get_by_role("button", name="SVG").click()
    drawn = waiting.value.path().read_text()
    playground.page.set_content(drawn[drawn.index("<svg") :])
    assert playground.page.locator("path.line").count() == len(figure)


@pytest.mark.short
def test_chinese_everywhere(browser, address):
    one = opened(browser, address, {**WIDE, "locale": "zh-CN"})
    assert one.page.get_attribute("html", "lang") == "zh-CN"
    for panel in PANELS:
        one.go(panel)
        no_overflow(one)
        for part in ("h2", ".lead", "figcaption", "h3"):
            for text in one.page.locator(f"#panels {part}:visible").all_inner_texts():
                assert re.search(r"[\u4e00-\u9fff]|^(Python|C\+\+|Hugging Face config\.json)$", text), (panel, part, text)
        plain = [text for text in one.page.locator("#panels .plot text, #panels .cells .label, #panels .legend li").all_text_contents() if re.search(r"[a-z]{4,} [a-z]{3,}", text)]
        assert plain == [], (panel, plain)
        assert one.page.locator("#panels :is(th, figcaption)", has_text="as trained").count() == 0, panel
    one.page.click("#language")
    assert one.page.get_attribute("html", "lang") == "en" and "lang=en" in one.page.evaluate("playground.app.state.fragment()")
    finished(one)


@pytest.mark.short
def test_a_phone_of_390_pixels(browser, address):
    one = opened(browser, address, PHONE)
    for panel in PANELS:
        one.go(panel)
        no_overflow(one)
    finished(one)


def test_zoomed_to_200_percent(browser, address):
    one = opened(browser, address, {"viewport": {"width": 640, "height": 450}, "device_scale_factor": 2})
    for panel in PANELS:
        one.go(panel)
        no_overflow(one)
    finished(one)


def test_keyboard_alone(playground):
    """From the top of the page to a panel, a slider and a point of a figure, without a mouse."""
    playground.open()
    keys = playground.page.keyboard
    keys.press("Tab")
    assert playground.page.evaluate("document.activeElement.className") == "skip"
    for _ in range(60):
        keys.press("Tab")
        if playground.page.evaluate("document.activeElement.dataset.panel") == "decay":
            break
    keys.press("Enter")
    playground.page.wait_for_selector("#panel-decay")
    playground.settle()
    assert playground.page.evaluate("document.activeElement.tagName") == "H2"
    keys.press("Tab")
    assert playground.page.evaluate("document.activeElement.type") == "range"
    before = playground.page.evaluate("playground.app.state.get('distance')")
    keys.press("ArrowRight")
    playground.settle()
    assert playground.page.evaluate("playground.app.state.get('distance')") > before
    for _ in range(20):
        keys.press("Tab")
        if playground.page.evaluate("document.activeElement.className") == "place":
            break
    keys.press("ArrowRight")
    keys.press("ArrowRight")
    assert re.search(r"\d", playground.page.inner_text('[data-figure="decay"] .readout'))


def test_every_control_is_reached_by_tab(playground):
    playground.open()
    for panel in PANELS:
        playground.go(panel)
        wanted = playground.page.locator("#panels :is(input, select, textarea, button, a, summary, .place):visible").count()
        reached = 0
        for _ in range(wanted + 60):
            playground.page.keyboard.press("Tab")
            inside = playground.page.evaluate("document.activeElement.closest('#panels') && document.activeElement.matches('input, select, textarea, button, a, summary, .place')")
            reached += bool(inside)
            if reached and not playground.page.evaluate("!!document.activeElement.closest('#panels')"):
                break
        hidden = playground.page.locator("#panels input.file").count()
        assert reached >= wanted - hidden, (panel, reached, wanted)


def test_reduced_motion_plays_in_steps(browser, address):
    one = opened(browser, address, {**WIDE, "reduced_motion": "reduce"})
    one.slide("position in the text", 1)
    one.page.get_by_role("button", name="Play").click()
    one.page.wait_for_timeout(900)
    assert one.page.evaluate("playground.app.state.get('position')") <= 2  # the first step has not come
    one.page.wait_for_timeout(1500)
    assert one.page.evaluate("playground.app.state.get('position')") > 2
    one.page.get_by_role("button", name="Pause").click()
    finished(one)


@pytest.mark.short
def test_playing_moves_the_hands(playground):
    playground.open("start", "&position=1000")
    before = playground.figure("hero-clock")["panels"][0]["curves"][0]["x"]
    playground.page.get_by_role("button", name="Play").click()
    playground.page.wait_for_timeout(600)
    playground.page.get_by_role("button", name="Pause").click()
    playground.settle()
    assert playground.figure("hero-clock")["panels"][0]["curves"][0]["x"] != before
    assert playground.page.evaluate("playground.app.state.get('position')") > 1000


@pytest.mark.short
@pytest.mark.parametrize("missing", ["delete globalThis.WebAssembly", "WebAssembly.validate = () => false; WebAssembly.compile = WebAssembly.instantiate = WebAssembly.instantiateStreaming = WebAssembly.compileStreaming = () => Promise.reject(new WebAssembly.CompileError('wasm: unexpected SIMD opcode'))"], ids=["WebAssembly", "SIMD"])
def test_what_is_missing_is_said(browser, address, missing):
    page = browser.new_context(**WIDE).new_page()
    page.add_init_script(missing)
    page.route("**/worker.js", lambda route: route.fulfill(body=f"{missing};{route.fetch().text()}", content_type="text/javascript"))
    page.goto(address)
    page.wait_for_selector("#core-problem:visible", timeout=30000)
    assert "WebAssembly" in page.inner_text("#core-problem")
    assert page.locator("svg.plot").count() >= 3  # what was drawn beforehand is still there
    page.context.close()


@pytest.mark.short
def test_state_is_in_the_address(playground):
    playground.open("attention")
    playground.select("scheme", "alibi")
    playground.slide("tokens", 20)
    playground.page.wait_for_timeout(400)
    assert "v=1" in playground.page.url and "scheme=alibi" in playground.page.url and "tokens=20" in playground.page.url
    playground.page.reload()
    playground.ready()
    assert len(playground.figure("attention")["panels"][0]["cells"]["rows"]) == 20
