# Without a network: it has to say so at once, and not hang.
curl --silent --show-error --max-time 20 http://192.0.2.1/ 2> message
code=$?
curl --silent --max-time 20 http://example.invalid/
test "$code $?" = "7 6" || { cat message >&2; exit 1; }
printf 'a page' > page
curl --silent "file://$PWD/page" | grep -q 'a page' && echo "fails cleanly"
