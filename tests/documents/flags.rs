//! The manual page and the completions of shells have the flags that `--help` has. They are made from it.

use crate::jail::stage::helper;
use crate::support::Stop;
use std::fmt::Write;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const TOP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// One line of the help.
struct Flag {
    name: String,
    value: String,
    help: String,
    /// What the value can be, where that is one of a few words.
    words: String,
}

/// Where a file lies, and how it is made.
type Made = (&'static str, fn(&Help) -> String);

const MADE: [Made; 4] = [
    ("docs/agentkit-jail.1", manual),
    ("helper/completions/agentkit-jail.bash", bash),
    ("helper/completions/_agentkit-jail", zsh),
    ("helper/completions/agentkit-jail.fish", fish),
];

pub(crate) fn manual_and_completions_have_the_flags() -> Result<(), Stop> {
    let help = Help::ask()?;
    for (path, make) in MADE {
        let written = fs::read_to_string(place(path))?;
        assert_eq!(written, make(&help), "AGENTKIT_DOCS=write makes {path} anew");
    }
    Ok(())
}

/// What is typed before the tab, and the words that a command then gets. A bash that reads keys from a pipe treats them as
/// those of a terminal.
const TYPED: [(&str, &str); 17] = [
    ("--me\t", "--me"),
    ("--mem\t1G", "--memory 1G"),
    ("--net lo\tx", "--net loopback x"),
    ("--net=lo\tx", "--net=loopback x"),
    ("--workdir proj:scr\t--net lo\tx", "--workdir proj:scratch --net loopback x"),
    ("--workdir=proj:scr\t--net lo\tx", "--workdir=proj:scratch --net loopback x"),
    ("--workdir \"my dir\":scr\t--net lo\tx", "--workdir my_dir:scratch --net loopback x"),
    ("--workdir proj:scratch --mech\tland\tx", "--workdir proj:scratch --mechanism landlock x"),
    ("--env A=1 --net lo\tx", "--env A=1 --net loopback x"),
    ("--env A=:--tty --net lo\tx", "--env A=:--tty --net loopback x"),
    ("--env=A=1 --net=lo\tx", "--env=A=1 --net=loopback x"),
    ("--require network_blocked,fi\tx", "--require network_blocked,filesystem_confined x"),
    ("--require=cpu_limited,di\t--str\tx", "--require=cpu_limited,disk_limited --strict x"),
    ("--wall 5 --tty --git of\tx", "--wall 5 --tty --git off x"),
    ("--wall 5 sh --pro\t", "--wall 5 sh --pro"),
    ("-- --net lo\t", "-- --net lo"),
    // Back by two letters before the tab.
    ("--env A=1 --net=lo x\u{2}\u{2}\t", "--env A=1 --net=loopback x"),
];

pub(crate) fn bash_completes_what_fits() -> Result<(), Stop> {
    if Command::new("bash").arg("--version").output().is_err() {
        return Err(Stop::Skip("no bash here".to_owned()));
    }
    let script = place("helper/completions/agentkit-jail.bash");
    // With the words that are parted at `:` and `=` as bash does it unless told otherwise, and without.
    for breaks in ["", "COMP_WORDBREAKS=${COMP_WORDBREAKS//[:=]}"] {
        let mut keys = format!("{breaks}\nsource {script:?}\n");
        keys.push_str("agentkit-jail() { local IFS=' '; local all=\"$*\"; echo \"<${*// /_}>\"; }\n");
        for (typed, _) in TYPED {
            let _ = writeln!(keys, "agentkit-jail {typed}");
        }
        let mut bash = Command::new("bash");
        // Nothing is read or written of who runs this: neither settings nor history. No name of a file fits.
        bash.args(["--norc", "--noprofile", "-i"]).env("INPUTRC", "/dev/null").env("HISTFILE", "");
        bash.current_dir("/dev/fd").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut bash = bash.spawn()?;
        if let Some(mut pipe) = bash.stdin.take() {
            pipe.write_all(keys.as_bytes())?;
        }
        let output = String::from_utf8(bash.wait_with_output()?.stdout)?;
        let got: Vec<_> =
            output.lines().filter_map(|line| line.strip_prefix('<')?.strip_suffix('>')).collect();
        let expected: Vec<_> = TYPED.iter().map(|(_, words)| *words).collect();
        assert_eq!(got, expected, "{breaks:?}: {output}");
    }
    Ok(())
}

pub(crate) fn write() -> Result<(), Stop> {
    let help = Help::ask()?;
    for (path, make) in MADE {
        fs::create_dir_all(place(path).parent().unwrap_or(&place(path)))?;
        fs::write(place(path), make(&help))?;
    }
    Ok(())
}

fn place(path: &str) -> PathBuf {
    PathBuf::from(TOP).join(path)
}

/// What `--help` says: before the flags, the flags, and behind them.
struct Help {
    before: String,
    flags: Vec<Flag>,
    behind: String,
}

impl Help {
    fn ask() -> Result<Self, Stop> {
        let output = Command::new(helper()).arg("--help").output()?;
        let text = String::from_utf8(output.stdout)?;
        let is_flag = |line: &&str| line.starts_with("  --");
        let before: Vec<_> = text.lines().take_while(|line| !is_flag(line)).collect();
        let behind: Vec<_> = text.lines().skip(before.len()).skip_while(|line| is_flag(line)).collect();
        let flags: Vec<_> = text.lines().filter(is_flag).map(Flag::read).collect::<Result<_, _>>()?;
        assert!(
            flags.len() > 20 && before.len() + flags.len() + behind.len() == text.lines().count(),
            "{text}"
        );
        Ok(Help { before: before.join("\n"), flags, behind: behind.join("\n") })
    }
}

impl Flag {
    fn read(line: &str) -> Result<Self, Stop> {
        let (left, help) = line.split_at(32.min(line.len()));
        let (name, value) = left.trim().split_once(' ').unwrap_or((left.trim(), ""));
        let words = if value.is_empty() { String::new() } else { words_of(name)? };
        Ok(Flag { name: name.to_owned(), value: value.to_owned(), help: help.trim().to_owned(), words })
    }
}

/// In the language of man(7), where a dash is a hyphen unless it is escaped and a line must not begin with a dot.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    text.lines()
        .map(|line| if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line.to_owned() })
        .collect::<Vec<_>>()
        .join("\n")
}

fn manual(help: &Help) -> String {
    let mut page = ".TH AGENTKIT\\-JAIL 1\n.SH NAME\nagentkit\\-jail \\- run one command in a jail\n.SH SYNOPSIS\nagentkit\\-jail [FLAGS] [\\-\\-] COMMAND [ARGUMENT...]\n.SH DESCRIPTION\n.nf\n".to_owned();
    let _ = writeln!(page, "{}\n.fi\n.SH OPTIONS", roff(&help.before));
    for Flag { name, value, help, .. } in &help.flags {
        let _ = writeln!(page, ".TP\n.BI {} \" {}\"\n{}", roff(name), roff(value), roff(help));
    }
    let _ = writeln!(page, ".SH EXIT STATUS AND SIGNALS\n{}", roff(help.behind.trim()));
    page
}

/// The words that its value is one of, if there are such: the complaint about another one lists them.
fn words_of(flag: &str) -> Result<String, Stop> {
    let words = [flag, "\u{1}:\u{1}", "true"];
    let output = Command::new(helper()).args(["--workdir", "/:overlay"]).args(words).output()?;
    let says = String::from_utf8(output.stderr)?;
    let (_, listed) = says.split_once("expected ").or_else(|| says.split_once(" only ")).unwrap_or_default();
    let (listed, _) = listed.split_once(" (see").unwrap_or_default();
    let listed = listed.trim_start_matches("one of ").replace(['`', ',', ':'], " ").replace(" or ", " ");
    Ok(listed.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Of the flags, and of the words that their values are: nothing of the command's own.
fn bash(help: &Help) -> String {
    let names = |flags: &mut dyn Iterator<Item = &Flag>, by: &str| {
        flags.map(|flag| flag.name.as_str()).collect::<Vec<_>>().join(by)
    };
    let valued = names(&mut help.flags.iter().filter(|flag| !flag.value.is_empty()), "|");
    let mut words = format!("        '') words='{}' ;;\n", names(&mut help.flags.iter(), " "));
    for flag in help.flags.iter().filter(|flag| !flag.words.is_empty()) {
        let all = format!("words='{}'", flag.words);
        // Of some values it is only the end: behind a directory, or behind other names.
        let offers = match flag.value.as_str() {
            "DIR[:MODE]" => format!("[[ $value == *:* ]] && {all} before+=${{value%:*}}:"),
            value if value.contains(',') => format!("{all} before+=${{value%\"${{value##*,}}\"}}"),
            _ => all,
        };
        let _ = writeln!(words, "        {}) {offers} ;;", flag.name);
    }
    BASH.replace("VALUED", &valued).replace("        WORDS\n", &words)
}

/// bash parts words at `:` and `=` too, unless the user has told it not to, and replaces the last part alone, which is `$2`.
const BASH: &str = r##"_agentkit_jail() {
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
            VALUED) flag=$part ;;
            -?*) ;;
            *) return ;;
        esac
    done
    local value=$word
    [[ -z $flag && $word == --*=* ]] && flag=${word%%=*} value=${word#*=} before=$flag=
    [[ -z $flag && $word != -* ]] && return
    case $flag in
        WORDS
    esac
    mapfile -t COMPREPLY < <(compgen -P "$before" -W "$words" -- "${word#"$before"}")
    COMPREPLY=("${COMPREPLY[@]#"${word%"$2"}"}")
}
complete -o default -F _agentkit_jail agentkit-jail
"##;

fn zsh(help: &Help) -> String {
    let mut text = "#compdef agentkit-jail\n_arguments -S \\\n".to_owned();
    for Flag { name, value, help, words } in &help.flags {
        let help = help.replace('\'', "'\\''").replace('[', "\\[").replace(']', "\\]").replace(':', "\\:");
        let value = match value.as_str() {
            "" => String::new(),
            value if value.starts_with("PATH") || value.starts_with("DIR") => {
                format!(":{}:_files", value.replace(':', "\\:"))
            }
            value if words.is_empty() => format!(":{}:", value.replace(':', "\\:")),
            value => format!(":{value}:({words})"),
        };
        let equals = if value.is_empty() { "" } else { "=" };
        let _ = writeln!(text, "    '*{name}{equals}[{help}]{value}' \\");
    }
    text + "    '*:: :_normal'\n"
}

fn fish(help: &Help) -> String {
    let mut text = String::new();
    for Flag { name, value, help, words } in &help.flags {
        let takes = match (value.as_str(), words.as_str()) {
            ("", _) => String::new(),
            (value, words) if words.is_empty() || value.starts_with("DIR") => " -r".to_owned(),
            (_, words) => format!(" -x -a '{words}'"),
        };
        let help = help.replace('\\', "\\\\").replace('\'', "\\'");
        let _ = writeln!(
            text,
            "complete -c agentkit-jail -l {}{takes} -d '{help}'",
            name.trim_start_matches("--")
        );
    }
    text
}
