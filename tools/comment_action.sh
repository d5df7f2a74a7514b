#!/usr/bin/env bash
# What action.yml runs with `post-comment: true`: the review as one comment of the pull request,
# which the next review writes over. Not being allowed to is no defect of the change.
set -euo pipefail

if [[ -z ${POWER_REVIEW_NUMBER:-} || ! -s ${POWER_REVIEW_COMMENT:-} ]]; then
  echo "::notice title=Power review::there is no pull request, or no review, to comment"
  exit 0
fi

repository=repos/$GITHUB_REPOSITORY
mark=$(head -n 1 "$POWER_REVIEW_COMMENT")
# Anybody can write the first line of our comments: ours is also by who asks here.
query='query($owner: String!, $name: String!, $number: Int!, $endCursor: String) {
  repository(owner: $owner, name: $name) { pullRequest(number: $number) {
    comments(first: 100, after: $endCursor) {
      nodes { databaseId body viewerDidAuthor } pageInfo { hasNextPage endCursor } } } } }'
find_ours='import json, sys
ours = (c["databaseId"] for c in map(json.loads, sys.stdin)
        if c["viewerDidAuthor"] and c["body"].startswith(sys.argv[1]))
print(next(ours, ""))'

post() {
  local there
  there=$(gh api graphql --paginate --raw-field query="$query" \
    --raw-field owner="${GITHUB_REPOSITORY%/*}" --raw-field name="${GITHUB_REPOSITORY#*/}" \
    --field number="$POWER_REVIEW_NUMBER" \
    --jq '.data.repository.pullRequest.comments.nodes[]' | python3 -c "$find_ours" "$mark") || return
  if [[ -n $there ]]; then
    set -- PATCH "$repository/issues/comments/$there"
  else
    set -- POST "$repository/issues/$POWER_REVIEW_NUMBER/comments"
  fi
  gh api --method "$1" "$2" --field body=@- <"$POWER_REVIEW_COMMENT" >/dev/null
}

post || echo "::warning title=Power review::the comment could not be written: it needs \`pull-requests: write\`"
