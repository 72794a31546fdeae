#!/bin/sh
# A person at a browser without scripts: opens the page $2, sends each form off as it is, and leaves the
# last page in the folder $1.
set -eu

folder=$1
page="$folder/page.html"
jar=$(mktemp "$folder/cookies.XXXXXX")

visit() {
    curl -sSL --max-time 20 -b "$jar" -c "$jar" -o "$page" "$@"
}

in_page() {
    sed -n "s/.*$1.*/$2/p" "$page"
}

visit "$2"
while grep -q '<form' "$page"; do
    action=$(in_page '<form[^>]* action="\([^"]*\)"' '\1')
    set --
    for field in $(in_page '<input[^>]* name="\([^"]*\)" value="\([^"]*\)"' '\1=\2'); do
        set -- "$@" --data-urlencode "$field"
    done
    visit "$@" "$action"
done
mv "$page" "$folder/last-page"
