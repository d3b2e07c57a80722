set -e
mkdir -p tree/below
echo text > tree/file
ln tree/file tree/hard
ln -s file tree/soft
mkfifo tree/fifo
chmod 640 tree/file
touch -d '2001-02-03 04:05:06' tree/file
test -g tree/below
cp -a tree copy
cp -r tree copied
tar cf archive.tar --sparse tree
mkdir unpacked
tar xpf archive.tar -C unpacked
for one in copy unpacked/tree; do
    test "$(stat -c '%a %Y %h' $one/file)" = "$(stat -c '%a %Y %h' tree/file)"
    test "$(readlink $one/soft)" = file
    test -p $one/fifo
    test -g $one -a -g $one/below
done
test -g copied/below
tar cf - tree | (mkdir again && cd again && umask 027 && tar xf -)
test -g again/tree/below
chmod -R u+w .
chmod g+s tree
chmod 2771 tree/below
(cd tree/below && chmod 2775 ../../tree . "$PWD")
# A file with the bit would lend the launcher's group on the host.
chmod g+s tree/file 2> message && exit 1
grep -q 'Operation not permitted' message
tar czf archive.tgz tree
tar tzf archive.tgz > list
grep -q tree/below/ list
rm -rf copy copied unpacked again
echo works
