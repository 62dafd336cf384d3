#!/bin/sh
# Stands in for the server: the fifth argument says what it does, the sixth is a pipe through which the test learns of it.
[ "$1 $2 $3 $4" = "serve --listen 127.0.0.1:0 --ephemeral" ] || exit 7
ready() {
    echo "some remark"
    echo "handback listening on http://127.0.0.1:9"
}
case $5 in
fail)
    echo "error: there is no room" >&2
    echo "make some" >&2
    exit 1
    ;;
flood)
    # Far more than fits into a pipe that nobody reads.
    ready
    yes | head -c 1000000
    yes | head -c 1000000 >&2
    echo done > "$6"
    exec sleep 1000
    ;;
stay)
    # The pipe is at its end when the process is.
    exec 3> "$6"
    ready
    exec sleep 1000
    ;;
leave)
    trap 'kill $!; echo bye > "$6"; exit' TERM
    sleep 1000 &
    ready
    wait
    ;;
esac
