"""What a committed file must not hold: a machine's paths, a registry's host, a conflict."""

import re

import pytest

from tests.house.sources import texts

# Each is written in pieces here, so that this file does not hold it.
FORBIDDEN = {
    "a registry's host": re.compile(
        "|".join(
            (
                r"pypi\." + r"org",
                r"python" + r"hosted\.org",
                r"registry\." + r"npmjs",
                r"npmjs\." + r"com",
                r"deb\.debian\." + r"org",
            )
        )
    ),
    "a person's or a machine's path": re.compile(
        r"(?<![\w.$}/-])/" + r"(?:home|root|Users|work|tmp|opt)/\w"
    ),
    "a merge conflict": re.compile(r"^(?:<{7}|>{7}|\|{7}) ", re.MULTILINE),
    "trailing white space": re.compile(r"[ \t]+$", re.MULTILINE),
}
EXACT = re.compile(r"^tests/vectors/|\.ambr$")  # what must be there byte for byte
UNCHECKED = {
    "trailing white space": re.compile(rf"{EXACT.pattern}|^LICENSE$"),
    "a merge conflict": re.compile(r"^tests/"),
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_holds(what: str) -> None:
    found = [
        f"{name}:{text[: hit.start()].count(chr(10)) + 1}: {hit.group()!r}"
        for name, text in texts().items()
        if not (what in UNCHECKED and UNCHECKED[what].search(name))
        if (hit := FORBIDDEN[what].search(text))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("a registry's host", "https://registry." + "npmjs.org/x"),
        ("a person's or a machine's path", "see /" + "home/someone"),
        ("a merge conflict", "<" * 7 + " HEAD"),
        ("trailing white space", "a \nb"),
    ],
)
def test_the_patterns_see_what_they_are_for(what: str, text: str) -> None:
    assert FORBIDDEN[what].search(text)


def test_every_text_ends_its_last_line() -> None:
    checked = {name: text for name, text in texts().items() if not EXACT.search(name)}
    assert [name for name, text in checked.items() if text and not text.endswith("\n")] == []
