# Another sandbox inside: its namespaces would give back what was taken.
unshare --user true 2> message && exit 1
grep -q -e 'Operation not permitted' -e 'No space left on device' message || { cat message >&2; exit 1; }
echo refused
