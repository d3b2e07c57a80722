set -e
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org
git init -q project
cd project
echo one > file
git add file
git commit -q -m first
git checkout -q -b other
echo two > file
git commit -q -a -m second
git worktree add -q ../linked -b third
echo three > ../linked/file
git -C ../linked commit -q -a -m third
git merge -q third
git gc -q
git clone -q . ../copy
test "$(git -C ../copy log --oneline | wc -l)" = 3
test -z "$(git status --porcelain)"
git init -q --bare --shared=group ../shared
git push -q ../shared other
test -g ../shared/objects -a -g ../shared/refs/heads
echo works
