set -e
printf 'one\ntwo\n' > file
vim -es -u NONE -c '%s/two/three/' -c 'wq' file
test "$(tail -1 file)" = three
echo works
