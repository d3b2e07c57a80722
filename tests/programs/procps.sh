set -e
test "$(ps -e -o pid= | head -1 | tr -d ' ')" = 1
free | grep -q '^Mem:'
uptime > /dev/null
top -b -n 1 > /dev/null
pgrep -f procps.sh > /dev/null
echo works
