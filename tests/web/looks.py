# SPDX-License-Identifier: Apache-2.0
"""Pictures of every panel, for people to look at: python tests/web/looks.py OUT [panel ...]. Light, dark, phone and Chinese."""

from __future__ import annotations

import functools
import http.server
import os
import sys
import threading
from pathlib import Path

from conftest import PANELS, ROOT, Handler, Playground
from playwright.sync_api import sync_playwright

SITE = Path(os.environ.get("SITE", ROOT / "build/playground/site"))
WIDE = {"viewport": {"width": 1280, "height": 900}, "locale": "en-GB"}
LOOKS = {
    "light": WIDE,
    "dark": {**WIDE, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 1, "locale": "en-GB"},
    "chinese": {**WIDE, "locale": "zh-CN"},
}


def main(out: Path, panels: list[str], looks: list[str]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        for look in looks:
            one = Playground(browser.new_context(**LOOKS[look]).new_page(), f"http://127.0.0.1:{server.server_address[1]}/").open()
            for panel in panels:
                one.go(panel)
                one.page.screenshot(path=str(out / f"{panel}-{look}.png"), full_page=True)
                if one.problem():
                    print(panel, look, "says:", one.problem())
            for problem in one.problems:
                print(look, problem)
        browser.close()


if __name__ == "__main__":
    named = [name for name in sys.argv[2:] if name in PANELS] or list(PANELS)
    main(Path(sys.argv[1]), named, [name for name in sys.argv[2:] if name in LOOKS] or list(LOOKS))
