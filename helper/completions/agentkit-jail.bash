_agentkit_jail() {
    local flags='--profile --workdir --commit --ro --rw --hide --tmpfs --env --net --proc --wall --cpu --memory --disk --file-size --processes --open-files --output --git --require --strict --mechanism --tty --policy-fd --report-fd --print-policy --probe --json --client --help --version'
    case ${COMP_WORDS[COMP_CWORD]} in
        -*) mapfile -t COMPREPLY < <(compgen -W "$flags" -- "${COMP_WORDS[COMP_CWORD]}") ;;
    esac
}
complete -o default -F _agentkit_jail agentkit-jail
