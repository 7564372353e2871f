# Plays the commands of one part of a page in one shell, in a network of its own.
# $results has a file NUMBER.out, NUMBER.err and NUMBER.code for each command.
ip link set lo up

# run NUMBER: runs the command on stdin.
run() {
    IFS= read -rd '' command
    eval "$command" >"$results/$1.out" 2>"$results/$1.err" </dev/null
    echo $? >"$results/$1.code"
}

# serve NUMBER READY: starts the server on stdin, and waits until its output has READY.
serve() {
    IFS= read -rd '' command
    eval "exec $command" >"$results/$1.out" 2>"$results/$1.err" </dev/null &
    server=$!
    until grep -qs "$2" "$results/$1.out"; do
        if ! kill -0 "$server" 2>/dev/null; then
            wait "$server"
            echo "$?, before it was ready" >"$results/$1.code"
            return
        fi
        sleep 0.05
    done
    echo 0 >"$results/$1.code"
}

# Kills the server that was started last.
stop() {
    kill -9 "$server"
    wait "$server" 2>/dev/null || true
}

# Prints as in a terminal.
redis-cli() {
    command redis-cli --no-raw "$@"
}

# Ends with an error if the status is one.
curl() {
    command curl -fsS "$@"
}
