_agentkit_jail() {
    local word=${COMP_WORDS[COMP_CWORD]#=} flag= words= at
    for ((at = 1; at < COMP_CWORD; at++)); do
        case ${COMP_WORDS[at]} in
            =) ;;
            --profile|--workdir|--commit|--ro|--rw|--hide|--tmpfs|--env|--net|--proc|--wall|--cpu|--memory|--disk|--file-size|--processes|--open-files|--output|--git|--require|--mechanism|--policy-fd|--report-fd) flag=${COMP_WORDS[at]} ;;
            --) return ;;
            *) [[ -n $flag || ${COMP_WORDS[at]} == -* ]] || return; flag= ;;
        esac
    done
    case $flag in
        '') [[ $word == -* ]] && words='--profile --workdir --commit --ro --rw --hide --tmpfs --env --net --proc --wall --cpu --memory --disk --file-size --processes --open-files --output --git --require --strict --mechanism --tty --policy-fd --report-fd --print-policy --probe --json --client --help --version' ;;
        --profile) words='snippet workspace build strict' ;;
        --commit) words='never on_success always' ;;
        --net) words='none loopback host' ;;
        --proc) words='processes full' ;;
        --git) words='protect off' ;;
        --require) words='network_blocked filesystem_confined processes_isolated processes_contained memory_limited disk_limited cpu_limited syscalls_filtered privileges_dropped environment_scrubbed killed_as_a_tree' ;;
        --mechanism) words='auto namespaces bubblewrap landlock seatbelt rlimits' ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -o default -F _agentkit_jail agentkit-jail
