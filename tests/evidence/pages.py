"""Pages as a reader's programs see them: elements that nest, and what a browser draws."""

from __future__ import annotations

import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

VOID = {"meta", "br", "path", "circle", "rect"}
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")


class Page(HTMLParser):
    """A page's elements, refused when they do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.seen if name == tag]


def drawn(text: str, folder: Path) -> list[bytes]:
    """Pictures of a page in light and in dark; an error on the console is refused."""
    path = folder / "r.html"
    path.write_text(text, "utf-8")
    shots = []
    for scheme in ("0", "1"):
        shot = folder / f"{scheme}.png"
        done = subprocess.run(
            [
                str(BROWSER),
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--enable-logging=stderr",
                f"--user-data-dir={folder / 'profile'}",
                f"--blink-settings=preferredColorScheme={scheme}",
                "--window-size=1000,1600",
                f"--screenshot={shot}",
                path.as_uri(),
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        assert "CONSOLE" not in done.stderr
        shots.append(shot.read_bytes())
    return shots
