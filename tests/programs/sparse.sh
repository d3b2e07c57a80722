set -e
truncate -s 4G sparse
printf end | dd of=sparse bs=1 seek=4294967290 conv=notrunc status=none
test "$(stat -c %s sparse)" = 4294967296
test "$(du -k sparse | cut -f 1)" -lt 1024
cp --sparse=always sparse copy
cmp -s -i 4294960000 sparse copy
test "$(du -k copy | cut -f 1)" -lt 1024
echo works
