"""A page as a reader and a browser see it."""

from __future__ import annotations

import json
from html.parser import HTMLParser


class Page(HTMLParser):
    """Elements, the text that a reader sees, and the contents of each script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text, self.scripts, self._in = "", [], ""
        self.feed(text)
        self.text = " ".join(self.text.replace("\u00a0", " ").split())

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._in = tag
            if tag == "script":
                self.scripts.append("")

    def handle_endtag(self, tag):
        if tag == self._in:
            self._in = ""

    def handle_data(self, data):
        if self._in == "script":
            self.scripts[-1] += data
        elif not self._in:
            self.text += f" {data}"

    @property
    def figures(self):
        return json.loads(self.scripts[0])
