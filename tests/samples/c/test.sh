#!/bin/sh
# Runs orders against a test server, which ends with this script, however that ends.
set -eu
directory=$(mktemp -d)
trap 'kill "$server" 2>/dev/null; wait; rm -rf "$directory"' EXIT
${LOGBUS_COMMAND:-logbus} test-server --port-file "$directory/server.json" &
server=$!
until [ -e "$directory/server.json" ]; do sleep 0.1; kill -0 "$server"; done

told() { sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p" "$directory/server.json" | head -1; }
control() { curl -sS --fail-with-body -H "Authorization: Bearer $(told token)" -X "$1" "$(told control_url)$2" ${3:+-d "$3"}; }

expect() {
    if [ "$1" != "$2" ]; then
        printf 'expected:\n%s\ngot:\n%s\n' "$1" "$2" >&2
        exit 1
    fi
}

control POST /topics '{"name": "orders", "partitions": 3}'
./orders "$(told bootstrap)" order tea cake tea
expect "cake 1
tea 2" "$(./orders "$(told bootstrap)" count 3 | sort)"

# The broker writes the order, and its answer is lost: the producer sends it again, and it is written once.
control POST /faults '{"action": "disconnect", "api": "Produce", "times": 1, "after": true}'
./orders "$(told bootstrap)" order tea
control GET '/faults/1?hits=1&timeout=60'
./orders "$(told bootstrap)" order end
expect "end 1
tea 1" "$(./orders "$(told bootstrap)" count 2 | sort)"
echo "all passed"
