set -e
mkfifo pipe
seq 1000 > pipe &
test "$(wc -l < pipe)" = 1000
wait
echo works
