"""Strict reading: every wrong type, range, word and key of a file at once, each in its place."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from power.diagnostics import Diagnostic, PowerError
from power.manifest.expectation import expectation
from power.manifest.load import load_manifest, load_profile, parse_manifest, parse_profile
from power.manifest.model import Manifest, Mode
from power.manifest.profile import Profile

Refused = Callable[[str | bytes], tuple[Diagnostic, ...]]


def one_line(key: str, value: str) -> str:
    """TOML that sets one dotted setting."""
    section, _, name = key.partition(".")
    return f"[{section}]\n{name} = {value}\n"


def test_a_sound_manifest_loads(head: str) -> None:
    loaded = parse_manifest(head.encode(), "m.toml")
    assert loaded.manifest.target.path == "tiny.gguf"
    assert loaded.manifest.speculation.spec_draft_max == 7
    assert loaded.span("target", "bytes").line == 6
    assert loaded.text == head


def test_models_cannot_be_changed(head: str) -> None:
    manifest = parse_manifest(head.encode(), "m.toml").manifest
    with pytest.raises(ValueError, match="frozen"):
        manifest.name = "other"  # type: ignore[misc]


RANGES: dict[str, tuple[list[str], list[str]]] = {
    "speculation.spec_draft_max": (["1", "64"], ["0", "65", "-1"]),
    "speculation.spec_draft_min": (["0", "64"], ["-1", "65"]),
    "speculation.spec_draft_p_min": (["0", "0.0", "1", "1.0"], ["-0.1", "1.1", "nan", "inf"]),
    "speculation.spec_mtp_recurrent_snapshots": (["1", "64"], ["0", "65"]),
    "speculation.spec_mtp_fr_vocab_size": (["1024", "1048576"], ["1023", "1048577", "0"]),
    "graph.batch": (["1", "4096"], ["0", "4097"]),
    "graph.rows": (["1", "4096"], ["0", "4097"]),
    "graph.context": (["2", "16777216"], ["1", "16777217", "-4096"]),
    "graph.prefill_batch": (["1", "65536"], ["0"]),
    "graph.micro_batch": (["1", "65536"], ["0", "65537"]),
    "graph.gpu_layers": (["0", "10000", '"all"'], ["-1", "10001"]),
    "graph.main_gpu": (["0", "255"], ["-1", "256"]),
    "host.threads": (["1", "4096"], ["0"]),
    "host.cpu_affinity": (["[0]", "[3, 1]"], ["[]", "[-1]", "[4096]"]),
    "sampling.temperature": (["0", "0.7", "100"], ["-0.1", "nan", "inf", "-inf", "101"]),
    "sampling.top_k": (["1"], ["0", "-1"]),
    "sampling.top_p": (["1", "0.01"], ["0", "1.01"]),
    "sampling.min_p": (["0", "1"], ["-0.01", "1.01"]),
    "sampling.typical_p": (["1", "0.5"], ["0", "2"]),
    "sampling.repeat_penalty": (["1", "0.5", "10"], ["0", "11"]),
    "sampling.repeat_last_n": (["0", "64"], ["-1"]),
    # 2^32 - 1 makes the engine draw a seed of its own.
    "sampling.seed": (["0", "4294967294"], ["-1", "4294967295"]),
    "sampling.max_tokens": (["1"], ["0", "-5"]),
    "bounds.min_acceptance": (["0", "1", "0.25"], ["-0.1", "1.1", "nan"]),
    "preflight.idle_ms": (["100", "120000"], ["99", "120001"]),
    "preflight.cpu_percent": (["0", "100"], ["-1", "101"]),
    "preflight.gpu_percent": (["0", "100"], ["-1", "101"]),
    "preflight.busy_processes": (["0", "65536"], ["-1", "65537"]),
    "preflight.free_memory_bytes": (["1", "8000000000"], ["0", "-1"]),
}
INTEGERS = (
    "speculation.spec_draft_max",
    "speculation.spec_draft_min",
    "speculation.spec_mtp_recurrent_snapshots",
    "speculation.spec_mtp_fr_vocab_size",
    "graph.batch",
    "graph.rows",
    "graph.context",
    "graph.prefill_batch",
    "graph.micro_batch",
    "graph.gpu_layers",
    "graph.main_gpu",
    "host.threads",
    "sampling.top_k",
    "sampling.repeat_last_n",
    "sampling.seed",
    "sampling.max_tokens",
    "preflight.idle_ms",
    "preflight.cpu_percent",
    "preflight.gpu_percent",
    "preflight.busy_processes",
    "preflight.free_memory_bytes",
)


@pytest.mark.parametrize(
    ("key", "value"), [(key, value) for key, (good, _) in RANGES.items() for value in good]
)
def test_the_ends_of_a_range_are_in_it(head: str, key: str, value: str) -> None:
    manifest = parse_manifest((head + one_line(key, value)).encode(), "m").manifest
    section, _, name = key.partition(".")
    written = getattr(getattr(manifest, section), name)
    expected = json.loads(value)
    assert (list(written) if isinstance(written, tuple) else written) == expected


@pytest.mark.parametrize(
    ("key", "value"), [(key, value) for key, (_, bad) in RANGES.items() for value in bad]
)
def test_beyond_a_range_is_refused_with_the_range(
    head: str, refused: Refused, key: str, value: str
) -> None:
    (found,) = refused(head + one_line(key, value))
    assert found.code == "P115"
    assert key in found.message
    assert found.expected
    assert found.expected.startswith(("an integer", "a number", "an array"))
    assert found.spans[0].line == 9


@pytest.mark.parametrize("key", INTEGERS)
@pytest.mark.parametrize("value", ["true", "7.0", '"7"', "[7]", "{a = 7}", "2020-01-01"])
def test_an_integer_is_nothing_else(head: str, refused: Refused, key: str, value: str) -> None:
    (found,) = refused(head + one_line(key, value))
    assert (found.code, found.spans[0].line) == ("P114", 9)


@pytest.mark.parametrize("value", ["true", '"0.5"', "[0.5]"])
def test_a_number_is_no_boolean_and_no_string(head: str, refused: Refused, value: str) -> None:
    (found,) = refused(head + one_line("sampling.temperature", value))
    assert found.code == "P114"


@pytest.mark.parametrize("value", ["0", "1", '"true"', "1.0"])
def test_a_boolean_is_no_number_and_no_string(head: str, refused: Refused, value: str) -> None:
    (found,) = refused(head + one_line("graph.cuda_graphs", value))
    assert (found.code, found.expected) == ("P114", "`true` or `false`")


@pytest.mark.parametrize(
    ("key", "value", "hint"),
    [
        ("graph.batch", "9.0", "write `9`, without a point"),
        ("graph.batch", '"9"', "write it without quotes"),
        ("graph.batch", '"nine"', "write an integer from 1 to 4096"),
        ("graph.flash_attention", "true", 'write `"on"`'),
        ("graph.flash_attention", "false", 'write `"off"`'),
        ("graph.gpu_layers", '"most"', 'write a count without quotes, or `"all"`'),
        ("sampling.grammar", "1", "write it in quotes"),
    ],
)
def test_a_wrong_type_is_hinted_right(
    head: str, refused: Refused, key: str, value: str, hint: str
) -> None:
    (found,) = refused(head + one_line(key, value))
    assert (found.code, found.hint) == ("P114", hint)


@pytest.mark.parametrize("mode", Mode.__args__)  # type: ignore[attr-defined]
def test_every_strategy_has_one_spelling(head: str, refused: Refused, mode: str) -> None:
    text = head + one_line("speculation.spec_mode", f'"{mode}"')
    assert parse_manifest(text.encode(), "m").manifest.speculation.spec_mode == mode
    (found,) = refused(head + one_line("speculation.spec_mode", f'"{mode.upper()}"'))
    assert (found.code, found.hint) == ("P116", f"did you mean `{mode}`?")


@pytest.mark.parametrize(
    ("alias", "canonical"),
    [
        ("none", "off"),
        ("lookup", "prompt-lookup"),
        ("prompt_lookup", "prompt-lookup"),
        ("context", "ngram-context"),
        ("draft", "draft-model"),
        ("multi_token_prediction", "mtp"),
        (" MTP ", "mtp"),
    ],
)
def test_old_spellings_are_hinted_at_and_not_accepted(
    head: str, refused: Refused, alias: str, canonical: str
) -> None:
    (found,) = refused(head + one_line("speculation.spec_mode", f'"{alias}"'))
    assert (found.code, found.hint) == ("P116", f"did you mean `{canonical}`?")
    assert found.expected is not None
    assert all(f"`{mode}`" in found.expected for mode in Mode.__args__)  # type: ignore[attr-defined]


def test_a_misspelt_key_is_refused_with_the_right_one(head: str, refused: Refused) -> None:
    (found,) = refused(head + "[speculation]\nspec_draft_maks = 7\n")
    assert (found.code, found.hint) == ("P112", "did you mean `spec_draft_max`?")
    assert (found.spans[0].column, found.spans[0].width) == (1, len("spec_draft_maks"))


def test_a_key_of_another_section_is_sent_there(head: str, refused: Refused) -> None:
    (found,) = refused(head + "[graph]\ntemperature = 0.5\n")
    assert (found.code, found.hint) == ("P112", "`temperature` belongs in `[sampling]`")


@pytest.mark.parametrize("key", ["spec_mode", "spec_draft_max", "spec_mtp_adaptive"])
def test_the_flat_form_is_told_where_it_belongs(head: str, refused: Refused, key: str) -> None:
    (found,) = refused(f"{key} = 1\n{head}")
    assert (found.code, found.spans[0].line) == ("P119", 1)
    assert found.hint is not None
    assert "[speculation]" in found.hint


def test_control_characters_of_a_key_are_shown_escaped(head: str, refused: Refused) -> None:
    (found,) = refused(head + '"\\u001b[31mred\\u202e" = 1\n')
    assert found.message == r"unknown key `\x1b[31mred\u202e` in `[target]`"


def test_missing_keys_are_placed_at_their_table(refused: Refused) -> None:
    found = refused('schema = 1\nname = "x"\n[target]\npath = "x"\n')
    assert [(d.code, d.message, d.spans[0].line) for d in found] == [
        ("P113", "`target.bytes` is missing", 3),
        ("P113", "`target.sha256` is missing", 3),
    ]
    assert all(d.expected and d.hint for d in found)


def test_all_problems_of_a_file_come_at_once_in_its_order(refused: Refused) -> None:
    found = refused(
        'nam = "x"\nschema = 1\n'
        '[graph]\nbatch = true\nshape = "square"\n'
        "[sampling]\ntemperature = -1\n"
        '[target]\npath = "../x"\nbytes = 1\nsha256 = "12"\n'
    )
    assert [d.code for d in found] == [
        "P113", "P112", "P114", "P116", "P115", "P117", "P117",
    ]  # fmt: skip
    lines = [d.spans[0].line for d in found]
    assert lines == sorted(lines)


def test_a_flood_of_problems_is_cut_and_counted(head: str, refused: Refused) -> None:
    found = refused(head + "".join(f"k{i} = 1\n" for i in range(250)))
    assert len(found) == 101
    assert found[-1].message == "150 more problems in this manifest are not shown"


@pytest.mark.parametrize("schema", ["2", "0", "-1", "true", "1.0", '"1"'])
def test_another_schema_is_refused(head: str, refused: Refused, schema: str) -> None:
    (found,) = refused(head.replace("schema = 1", f"schema = {schema}"))
    assert (found.code, found.expected) == ("P118", "1")


def test_a_newer_schema_hides_what_this_version_cannot_judge(head: str, refused: Refused) -> None:
    found = refused(head.replace("schema = 1", "schema = 2") + 'novelty = "?"\n')
    assert [d.code for d in found] == ["P118"]
    assert found[0].hint is not None
    assert "install" in found[0].hint


@pytest.mark.parametrize("line", ["target = 3", 'target = "x.gguf"', "target = [1]"])
def test_a_table_is_nothing_else(refused: Refused, line: str) -> None:
    (found,) = refused(f'schema = 1\nname = "x"\n{line}\n')
    assert (found.code, found.expected, found.spans[0].line) == ("P114", "a table", 3)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('version = 1\n[lock]\nplan_sha256 = "x"\n', "plan"),
        ('schema = 1\nname = "x"\nsummary = "y"\n', "profile"),
    ],
)
def test_another_document_is_told_apart(refused: Refused, text: str, kind: str) -> None:
    (found,) = refused(text)
    assert (found.code, found.found) == ("P120", f"a {kind}")


def test_a_manifest_is_no_profile(head: str) -> None:
    with pytest.raises(PowerError) as caught:
        parse_profile(head.encode(), "p.toml")
    assert [d.code for d in caught.value.diagnostics] == ["P120"]


def test_loading_names_the_path_in_places(written: Callable[[str, str], Any], head: str) -> None:
    path = written("m.toml", head + "[graph]\nbatch = 0\n")
    with pytest.raises(PowerError) as caught:
        load_manifest(path)
    assert caught.value.diagnostics[0].spans[0].file == str(path)
    good = written("p.toml", 'schema = 1\nname = "p"\nsummary = "s"\n')
    assert load_profile(good).path == good


@pytest.mark.parametrize("model", [Manifest, Profile])
def test_every_key_says_what_it_takes(model: type[Manifest | Profile]) -> None:
    """No key of a manifest or profile would be refused without a word on what it wants."""
    for name, info in model.model_fields.items():
        key = info.alias or name
        assert expectation(model, (key,))
        table = getattr(info.annotation, "model_fields", {})
        for inner in table:
            assert expectation(model, (key, inner))
