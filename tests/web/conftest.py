# SPDX-License-Identifier: Apache-2.0
"""The playground in Chromium, its page served from a thread, and the native tool beside it."""

from __future__ import annotations

import contextlib
import functools
import gzip
import http.server
import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
PANELS = ("start", "model", "pairs", "scalings", "decay", "precision", "attention", "image", "added", "cache", "compare", "lab", "take")
#: What is printed at the end: the budgets of issue 17's table.
MEASURED: list[tuple[str, str, str]] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--site", default=str(ROOT / "build/playground/site"), help="where web/page/build.sh wrote the page")
    parser.addoption("--tool", default=str(ROOT / "build/dev/phasor"), help="the native tool")
    parser.addoption("--core", default=str(ROOT / "build/dev/phasor_web"), help="the native build of the page's core")
    parser.addoption("--chromium", default="/usr/bin/chromium")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if not MEASURED:
        return
    terminalreporter.section("budgets of the playground")
    for name, value, limit in MEASURED:
        terminalreporter.write_line(f"{name:<58} {value:>12}   limit {limit}")


@functools.cache
def packed(path: str) -> bytes:
    return gzip.compress(Path(path).read_bytes(), 9)


class Handler(http.server.SimpleHTTPRequestHandler):
    """Quiet, with the type that streaming compilation asks for, and packed as a server on the net has it."""

    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".wasm": "application/wasm", ".js": "text/javascript"}

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        file = path / "index.html" if path.is_dir() else path
        if not file.is_file():
            return super().do_GET()
        body = packed(str(file))
        self.send_response(200)
        for name, value in (("Content-Type", self.guess_type(str(file))), ("Content-Encoding", "gzip"), ("Content-Length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        with contextlib.suppress(ConnectionError):  # a page that is closed does not wait for its module
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="session")
def site(request: pytest.FixtureRequest) -> Path:
    path = Path(request.config.getoption("--site"))
    assert (path / "index.html").exists(), f"{path} has no page: run make playground"
    return path


@pytest.fixture(scope="session")
def address(site: Path) -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()


@pytest.fixture(scope="session")
def browser(request: pytest.FixtureRequest) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        one = playwright.chromium.launch(executable_path=request.config.getoption("--chromium"), args=["--no-sandbox"])
        yield one
        one.close()


class Playground:
    """A page that is open, and what tests ask of it."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.address = address
        self.elsewhere: list[str] = []
        self.problems: list[str] = []
        page.on("request", lambda request: self._requested(request.url))
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", lambda message: self.problems.append(message.text) if message.type == "error" else None)

    def _requested(self, url: str) -> None:
        if not url.startswith((self.address, "data:", "blob:")):
            self.elsewhere.append(url)

    def open(self, panel: str = "start", more: str = "") -> Playground:
        self.page.goto(f"{self.address}#v=1&panel={panel}{more}")
        self.page.reload()
        self.ready()
        return self

    def ready(self) -> None:
        self.page.wait_for_selector("html[data-ready]", timeout=60000)
        assert self.page.get_attribute("html", "data-ready") == "true", self.page.inner_text("#core-problem")
        self.settle()

    def settle(self) -> None:
        """Until the core has nothing to do and every figure is described."""
        self.page.wait_for_function(
            """() => new Promise((done) => {
              let calm = 0;
              const look = () => {
                const core = playground.app.core;
                calm = core.asked.size || core.next.size ? 0 : calm + 1;
                if (calm > 4) done(true); else requestAnimationFrame(look);
              };
              look();
            })""",
            timeout=60000,
        )

    def go(self, panel: str) -> None:
        self.page.click(f'nav a[data-panel="{panel}"]')
        self.page.wait_for_selector(f"#panel-{panel}")
        self.settle()

    def figure(self, name: str) -> Any:
        """The figure as the page has it, every list a list of numbers."""
        return self.page.evaluate(
            """(name) => {
              const plain = (value) => ArrayBuffer.isView(value) ? Array.from(value)
                : Array.isArray(value) ? value.map(plain)
                : value && typeof value === "object" ? Object.fromEntries(Object.entries(value).map(([k, v]) => [k, plain(v)])) : value;
              return plain(playground.cards.get(name)?.figure ?? null);
            }""",
            name,
        )

    def shown_figures(self) -> list[str]:
        return self.page.eval_on_selector_all("#panels figure[data-figure]", "all => all.filter(f => !f.hidden).map(f => f.dataset.figure)")

    def slide(self, label: str, value: float) -> None:
        """Puts a number into the field beside a slider."""
        field = self.page.locator(f'#panels .slider input.number[aria-label="{label}"]')
        field.fill(str(value))
        field.press("Enter")
        field.blur()
        self.settle()

    def drag(self, label: str, shares: list[float]) -> None:
        """Moves a thumb with the mouse held down, then lets it go."""
        thumb = self.page.locator("#panels .slider", has=self.page.locator(f'input.number[aria-label="{label}"]')).locator('input[type="range"]')
        thumb.scroll_into_view_if_needed()
        box = thumb.bounding_box()
        assert box
        y = box["y"] + box["height"] / 2
        self.page.mouse.move(box["x"] + box["width"] * shares[0], y)
        self.page.mouse.down()
        for share in shares:
            self.page.mouse.move(box["x"] + box["width"] * share, y)
            self.page.wait_for_timeout(20)
        self.page.mouse.up()
        self.settle()

    def select(self, label: str, value: str) -> None:
        self.page.locator("#panels").get_by_label(label, exact=True).select_option(value)
        self.settle()

    def drop(self, name: str, data: bytes) -> None:
        """Drops a file on the page, as a hand would."""
        self.page.evaluate(
            """([name, bytes]) => {
              const data = new DataTransfer();
              data.items.add(new File([new Uint8Array(bytes)], name));
              document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
            }""",
            [name, list(data)],
        )
        self.page.wait_for_selector("#panel-model")
        self.settle()

    def problem(self) -> str:
        problem = self.page.locator("#panels .problem")
        return problem.inner_text() if problem.is_visible() else ""


@pytest.fixture
def context_options() -> dict[str, Any]:
    return {"viewport": {"width": 1280, "height": 900}, "locale": "en-GB"}


@pytest.fixture
def playground(browser: Browser, address: str, context_options: dict[str, Any]) -> Iterator[Playground]:
    context: BrowserContext = browser.new_context(**context_options)
    one = Playground(context.new_page(), address)
    yield one
    assert one.elsewhere == [], "requests to anywhere else"
    assert one.problems == [], "errors of the page"
    context.close()


@pytest.fixture(scope="session")
def tool(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Runs the native tool with --json; `text=True` without."""
    path = request.config.getoption("--tool")

    def run(*arguments: str, text: bool = False) -> Any:
        done = subprocess.run([path, *arguments, *([] if text else ["--json"])], capture_output=True, text=True, timeout=120)
        assert not done.stderr, done.stderr
        return done.stdout if text else json.loads(done.stdout)

    return run


@pytest.fixture(scope="session")
def refusal(request: pytest.FixtureRequest) -> Callable[[Path], str]:
    """What the native tool says about a file that it cannot read; empty if it can."""
    path = request.config.getoption("--tool")

    def run(file: Path) -> str:
        done = subprocess.run([path, "explain", str(file)], capture_output=True, timeout=60)
        return "" if done.returncode == 0 else done.stderr.decode(errors="replace").strip()

    return run


@pytest.fixture(scope="session")
def core(request: pytest.FixtureRequest) -> Callable[[dict[str, Any]], Any]:
    """The page's core, compiled natively: a request in, its result out."""
    path = request.config.getoption("--core")

    def run(question: dict[str, Any]) -> Any:
        done = subprocess.run([path], input=json.dumps(question) + "\n", capture_output=True, text=True, timeout=120)
        return json.loads(done.stdout.splitlines()[0])["result"]

    return run
