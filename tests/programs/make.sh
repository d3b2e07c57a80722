set -e
printf 'all: %s\n' "$(seq -s ' ' -f 'out.%g' 40)" > Makefile
printf 'out.%%:\n\t@echo $* > $@\nclean:\n\t@rm -f out.*\n.PHONY: all clean\n' >> Makefile
make -s -j8
test "$(cat out.* | sort -n | tail -1)" = 40
make -q all
make -s clean
echo works
