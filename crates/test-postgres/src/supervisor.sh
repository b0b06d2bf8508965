# Stands between a test and the program that it started, and ends that program when the test is
# gone.
#
# $1 is the folder that goes with the program, $2 the signal by which the program ends. Orders come
# by standard input, one to a line, and each is answered by one line. The pipe's other end is held
# by the test's process alone: however that ends, it closes, and `read` says so.
folder=$1
signal=$2
pid=

# An answer to a client that is gone must not be our end: the program would stay.
trap '' PIPE
# The end of this script ends the program too: a trap makes `read` return.
trap : HUP INT TERM

stop() {
    [ -n "$pid" ] || return 0
    # Said again until it is heard: a program that has only just begun ignores signals, because it
    # was started in the background. A program that was paused cannot hear before it goes on.
    (
        tries=0
        while [ $tries -lt 100 ] && kill -s "$signal" "$pid" && kill -s CONT "$pid"; do
            sleep 0.1
            tries=$((tries + 1))
        done
        kill -s KILL "$pid"
    ) >/dev/null 2>&1 </dev/null &
    nag=$!
    wait "$pid"
    kill "$nag" 2>/dev/null
    wait "$nag"
    pid=
}

while IFS= read -r order; do
    case $order in
    "run "*)
        if eval "${order#run }" >>"$folder/log" 2>&1 </dev/null; then echo done; else echo failed; fi
        ;;
    "start "*)
        (eval "exec ${order#start }") >>"$folder/log" 2>&1 </dev/null &
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
