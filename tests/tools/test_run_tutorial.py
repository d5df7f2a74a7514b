"""`tools/run_tutorial.py`: what it reads out of a page, and when it is content."""

import pytest

from tools.run_tutorial import PAGE, Step, lacking, run, steps

TEXT = """# Page

```bash
echo one
```

```text
one
```

prose

```text
not looked for
```

```toml
schema = 1
```

```bash
echo two
```
"""


def test_blocks_become_steps() -> None:
    assert steps(TEXT) == [Step("echo one\n", ("one",)), Step("echo two\n", ())]


@pytest.mark.parametrize(
    ("output", "expected", "missing"),
    [
        ("a\nb\nc\n", ("a", "c"), None),
        ("a\nb\n", ("b", "a"), "a"),
        ("12 tokens in 3 passes\n", ("… tokens in … passes",), None),
        ("12 tokens\n", ("… tokens in … passes",), "… tokens in … passes"),
        ("a.c\n", ("abc",), "abc"),
        ("", (), None),
    ],
)
def test_expected_lines_are_looked_for_in_order(
    output: str, expected: tuple[str, ...], missing: str | None
) -> None:
    assert lacking(output, expected) == missing


def test_blocks_share_a_shell_and_the_first_failure_ends_it() -> None:
    blocks = ["word=kept\n", 'echo "$word"; echo aside >&2\n', "false\n", "echo never\n"]
    code, outputs = run([Step(block, ()) for block in blocks])
    assert (code, outputs) == (1, ["", "kept\naside\n", ""])


def test_the_tutorial_has_steps_that_are_checked() -> None:
    found = steps(PAGE.read_text("utf-8"))
    assert sum(bool(step.expected) for step in found) > len(found) // 2
