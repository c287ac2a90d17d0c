#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The built site works without a network: nothing is loaded from elsewhere, every link inside leads somewhere. tools/docs/check_site.py FOLDER."""
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser loads by itself, by tag and attribute. A plain link (a href) is followed by a reader alone.
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "object": "data", "use": "href", "image": "href"}


class Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.loaded, self.linked, self.names = [], [], set()

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if found.get("id"):
            self.names.add(found["id"])
        if target := found.get(LOADED.get(tag, "")):
            self.loaded.append(target)
        if tag == "a" and found.get("href"):
            self.linked.append(found["href"])


def remote(target):
    return bool(urlsplit(target).scheme not in ("", "data", "mailto") or target.startswith("//"))


def check(folder):
    pages = {}
    for page in sorted(folder.rglob("*.html")):
        pages[page.resolve()] = links = Links()
        links.feed(page.read_text(encoding="utf-8"))
    wrong = [f"{page.name}: loads {target}" for page, links in pages.items() for target in links.loaded if remote(target)]
    for page, links in pages.items():
        for target in [*links.loaded, *links.linked]:
            parts = urlsplit(target)
            if parts.scheme or target.startswith("//") or target.startswith("#"):
                continue
            there = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if not there.exists():
                wrong.append(f"{page.name}: {target} leads nowhere")
            elif parts.fragment and there in pages and unquote(parts.fragment) not in pages[there].names:
                wrong.append(f"{page.name}: {target} has no such place")
    for style in sorted(folder.rglob("*.css")):
        wrong += [f"{style.name}: loads {url}" for url in re.findall(r"url\(['\"]?((?:https?:)?//[^)'\"]+)", style.read_text(encoding="utf-8"))]
    return pages, wrong


def unsearchable(folder):
    """Words of either language that the search does not know; a Sphinx that splits words in another way would lose one of them."""
    index = (folder / "searchindex.js").read_text(encoding="utf-8")
    return [f"searchindex.js: knows nothing of {word}" for word in ("rerotate", "\u65cb\u8f6c") if json.dumps(word) not in index]


if __name__ == "__main__":
    site = Path(sys.argv[1])
    found, mistakes = check(site)
    mistakes += unsearchable(site)
    print("\n".join(sorted(set(mistakes))))
    print(f"docs: {len(found)} pages in {site}, {len(set(mistakes))} broken or remote")
    sys.exit(bool(mistakes))
