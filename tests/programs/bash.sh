set -e
mapfile -t words <<'END'
a here-document
of two lines
END
test "${#words[@]}" = 2
test "$(cat <<< 'a here-string')" = "a here-string"
head -c 200000 /dev/zero | tr '\0' x > long
test "$(wc -c <<< "$(< long)")" = 200001
diff <(printf 'a\nb\n' | sort -r) <(printf 'b\na\n')
echo written > >(cat > substituted)
until [ -s substituted ]; do :; done
set -m
(exit 5) &
wait $! || test $? = 5
sleep 60 &
kill -STOP %%
until [[ $(jobs %%) == *Stopped* ]]; do jobs > /dev/null; done
bg %% > /dev/null
kill %%
wait %% || test $? = 143
coproc { read -r word; echo "${word^^}"; }
{ echo hello >&"${COPROC[1]}"; read -r answer <&"${COPROC[0]}"; }
test "$answer" = HELLO
trap 'echo works' EXIT
