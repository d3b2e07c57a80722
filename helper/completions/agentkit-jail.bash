_agentkit_jail() {
    local line=${COMP_LINE:0:COMP_POINT} given=() flag= before= words= part rest at
    # What no blank stands between is one word.
    for ((at = 0; at <= COMP_CWORD; at++)); do
        rest=${line#"${line%%[![:blank:]]*}"} part=${COMP_WORDS[at]}
        [[ $rest == "$part"* ]] || part=$rest
        if ((at)) && [[ $rest == "$line" ]]; then given[-1]+=$part; else given+=("$part"); fi
        line=${rest#"$part"}
    done
    local word=${given[-1]}
    for part in "${given[@]:1:${#given[@]}-2}"; do
        if [[ -n $flag ]]; then flag=; continue; fi
        case $part in
            --) return ;;
            --profile|--workdir|--commit|--ro|--rw|--hide|--tmpfs|--env|--net|--proc|--wall|--cpu|--memory|--disk|--file-size|--processes|--open-files|--output|--git|--require|--mechanism|--policy-fd|--report-fd) flag=$part ;;
            -?*) ;;
            *) return ;;
        esac
    done
    local value=$word
    [[ -z $flag && $word == --*=* ]] && flag=${word%%=*} value=${word#*=} before=$flag=
    [[ -z $flag && $word != -* ]] && return
    case $flag in
        '') words='--profile --workdir --commit --ro --rw --hide --tmpfs --env --net --proc --wall --cpu --memory --disk --file-size --processes --open-files --output --git --require --strict --mechanism --tty --policy-fd --report-fd --print-policy --probe --json --client --help --version' ;;
        --profile) words='snippet workspace build strict' ;;
        --workdir) [[ $value == *:* ]] && words='bind overlay scratch' before+=${value%:*}: ;;
        --commit) words='never on_success always' ;;
        --net) words='none loopback host' ;;
        --proc) words='processes full' ;;
        --git) words='protect off' ;;
        --require) words='network_blocked filesystem_confined processes_isolated processes_contained memory_limited disk_limited cpu_limited syscalls_filtered privileges_dropped environment_scrubbed killed_as_a_tree' before+=${value%"${value##*,}"} ;;
        --mechanism) words='auto namespaces bubblewrap landlock seatbelt rlimits' ;;
    esac
    mapfile -t COMPREPLY < <(compgen -P "$before" -W "$words" -- "${word#"$before"}")
    COMPREPLY=("${COMPREPLY[@]#"${word%"$2"}"}")
}
complete -o default -F _agentkit_jail agentkit-jail
