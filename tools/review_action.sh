#!/usr/bin/env bash
# What action.yml runs: `power review` with annotations, a job summary, and a comment's text.
# Uses the `power` on PATH; without one, installs Power from this checkout but for the engine,
# which a review does not need.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
temp=${RUNNER_TEMP:-$(mktemp -d)}
base=${POWER_REVIEW_BASE:-}

if ! command -v power >/dev/null; then
  python3 -m venv "$temp/power"
  "$temp/power/bin/python" - "$here/pyproject.toml" >"$temp/power/requirements.txt" <<'PYTHON'
import sys, tomllib

project = tomllib.load(open(sys.argv[1], "rb"))["project"]
print(*(d for d in project["dependencies"] if not d.startswith("llama-cpp-python")), sep="\n")
PYTHON
  "$temp/power/bin/pip" install --quiet --requirement "$temp/power/requirements.txt"
  "$temp/power/bin/pip" install --quiet --no-deps "$here"
  PATH=$temp/power/bin:$PATH
fi

if [[ -z $base || $base =~ ^0+$ ]]; then
  echo "::error title=Power review::there is no commit to compare with: give the input \`base\`"
  exit 2
fi
if ! git rev-parse --verify --quiet --end-of-options "$base^{commit}" >/dev/null; then
  echo "::error title=Power review::the base commit is not here: check out with \`fetch-depth: 0\`"
  exit 2
fi

options=(--base "$base")
for class in ${POWER_REVIEW_FAIL_ON:-}; do options+=(--fail-on "$class"); done
paths=()
while IFS= read -r path; do [[ -n $path ]] && paths+=("$path"); done <<<"${POWER_REVIEW_PATHS:-}"

power review "${options[@]}" --format markdown -- "${paths[@]}" >"$temp/power-review.md" || true
json=$(power review "${options[@]}" --format json -- "${paths[@]}") || true
defects=$(python3 -c 'import json, sys; print(json.load(sys.stdin).get("defects", ""))' <<<"$json")
{
  echo "defects=$defects"
  echo "comment=$temp/power-review.md"
} >>"${GITHUB_OUTPUT:-/dev/null}"
power review "${options[@]}" --summary "${GITHUB_STEP_SUMMARY:-/dev/null}" --format github \
  -- "${paths[@]}"
