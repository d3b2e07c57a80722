set -e
mkdir -p tree/below
test -g tree/below
echo text > tree/below/file
# To set the bit is refused, on a directory as on a file; that new directories inherit it is not.
cp -a tree copy 2> message && exit 1
grep -q 'preserving permissions' message || { cat message >&2; exit 1; }
cp -r tree copied
tar cf - tree | tar xf - --one-top-level=unpacked --no-same-permissions 2> message || true
for one in copy copied unpacked/tree; do
    diff -r tree $one
done
test -g copied/below
echo "copied; cp says that it could not set the bit, and fails"
