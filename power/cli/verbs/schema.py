"""`power schema`: the JSON Schemas of the formats."""

from __future__ import annotations

import click

from power.cli.console import Verb
from power.cli.options import format_option
from power.diagnostics import fail


@click.command("schema")
@click.argument("name", required=False)
@format_option("human", "json")
def command(name: str | None, fmt: str) -> None:
    """Print the JSON Schema NAME: manifest, profile, plan, trust and others.

    Without NAME, list them. An editor checks a manifest whose first line is
    `#:schema PATH-OF-THE-SCHEMA`.
    """
    with Verb("schema", fmt) as verb:
        import json

        from power.manifest.shipped import shipped

        files = {p.name.removesuffix(".schema.json"): p for p in shipped("schemas").glob("*.json")}
        if name is None:
            verb.data["names"] = sorted(files)
            verb.out("\n".join(sorted(files)))
            return
        if name not in files:
            fail(
                "P702",
                f"there is no schema `{name}`",
                expected=", ".join(sorted(files)),
                found=name,
                hint="`power schema` lists them",
            )
        text = files[name].read_text("utf-8")
        verb.data["json_schema"] = json.loads(text)
        verb.out(text)
