# Supervises the program that a test started, and ends it when the test's process has ended.
#
# $1 is the program's folder, which this script removes at the end. $2 is the signal that ends the
# program. The script reads commands from standard input, one per line, and answers each with one
# line. Only the test's process has the other end of the pipe: however that process ends, the pipe
# closes, and `read` fails.
folder=$1
signal=$2
pid=

# An answer to a process that is gone must not end this script: the program would go on.
trap '' PIPE
# A signal to this script ends the program too: a trap makes `read` return.
trap : HUP INT TERM

stop() {
    [ -n "$pid" ] || return 0
    # Sends the signal again and again. A program that has only just begun ignores it, because it was
    # started in the background. A paused program has to continue before it can receive the signal.
    (
        tries=0
        while [ $tries -lt 100 ] && kill -s "$signal" "$pid" && kill -s CONT "$pid"; do
            sleep 0.1
            tries=$((tries + 1))
        done
        kill -s KILL "$pid"
    ) >/dev/null 2>&1 </dev/null &
    killer=$!
    wait "$pid"
    kill "$killer" 2>/dev/null
    wait "$killer"
    pid=
}

while IFS= read -r command; do
    case $command in
    "run "*)
        if eval "${command#run }" >>"$folder/log" 2>&1 </dev/null; then echo done; else echo failed; fi
        ;;
    "start "*)
        (eval "exec ${command#start }") >>"$folder/log" 2>&1 </dev/null &
        pid=$!
        echo "$pid"
        ;;
    stop)
        stop
        echo stopped
        ;;
    esac
done

trap '' HUP INT TERM
stop
rm -rf "$folder"
