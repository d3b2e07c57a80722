set -e
seq 300000 | awk '{ print ($1 * 7919) % 300007 }' > numbers
sort -n -S 1M --parallel=2 numbers > sorted
sort -n -c sorted
test "$(wc -l < sorted)" = 300000
test "$(find . -name 'numbers' -print0 | xargs -0 -P 4 -n 1 basename)" = numbers
echo works
