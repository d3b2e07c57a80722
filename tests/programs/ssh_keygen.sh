set -e
ssh-keygen -q -t ed25519 -N '' -f key
ssh-keygen -l -f key.pub | grep -q ED25519
echo works
