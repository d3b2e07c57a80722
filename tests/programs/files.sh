set -e
mkdir -p tree/below
echo text > tree/file
ln tree/file tree/hard
ln -s file tree/soft
mkfifo tree/fifo
chmod 640 tree/file
touch -d '2001-02-03 04:05:06' tree/file
test -g tree/below
chmod g-s tree tree/below
cp -a tree copy
tar cf archive.tar --sparse tree
mkdir unpacked
tar xpf archive.tar -C unpacked
for one in copy unpacked/tree; do
    test "$(stat -c '%a %Y %h' $one/file)" = "$(stat -c '%a %Y %h' tree/file)"
    test "$(readlink $one/soft)" = file
    test -p $one/fifo
    test ! -g $one/below
done
tar czf archive.tgz tree
tar tzf archive.tgz > list
grep -q tree/below/ list
rm -rf copy unpacked
echo works
