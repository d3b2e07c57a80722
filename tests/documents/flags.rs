//! The manual page and the completions of shells have the flags that `--help` has. They are made from it.

use crate::jail::stage::helper;
use crate::support::Stop;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

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

/// Each line of the script is words, of which the last one is to be completed.
pub(crate) fn bash_completes_what_fits() -> Result<(), Stop> {
    if Command::new("bash").arg("--version").output().is_err() {
        return Err(Stop::Skip("no bash here".to_owned()));
    }
    let script = "source helper/completions/agentkit-jail.bash\n\
        try() { COMP_WORDS=(agentkit-jail \"$@\") COMP_CWORD=$# COMPREPLY=(); _agentkit_jail; echo \"${COMPREPLY[*]}\"; }\n\
        try --net ''; try --net = lo; try --me; try --wall 5 --git p; try --wall ''; try sh --; try -- --n; try --wall 5 sh --pro";
    let output = Command::new("bash").args(["-c", script]).current_dir(TOP).output()?;
    let offered = "none loopback host\nloopback\n--memory --mechanism\nprotect\n\n\n\n\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), offered, "{output:?}");
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
    let words = [flag, "\u{1}", "true"];
    let output = Command::new(helper()).args(["--workdir", "/:overlay"]).args(words).output()?;
    let says = String::from_utf8(output.stderr)?;
    let (_, listed) = says.split_once("expected ").or_else(|| says.split_once(", only ")).unwrap_or_default();
    let (listed, _) = listed.split_once(" (see").unwrap_or_default();
    let listed = listed.trim_start_matches("one of ").replace(['`', ','], " ").replace(" or ", " ");
    Ok(listed.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Of the flags, and of the words that their values are: nothing of the command's own.
fn bash(help: &Help) -> String {
    let names = |flags: &mut dyn Iterator<Item = &Flag>, by: &str| {
        flags.map(|flag| flag.name.as_str()).collect::<Vec<_>>().join(by)
    };
    let valued = names(&mut help.flags.iter().filter(|flag| !flag.value.is_empty()), "|");
    let mut text = format!(
        "_agentkit_jail() {{\n    local word=${{COMP_WORDS[COMP_CWORD]#=}} flag= words= at\n    \
         for ((at = 1; at < COMP_CWORD; at++)); do\n        case ${{COMP_WORDS[at]}} in\n            \
         =) ;;\n            {valued}) flag=${{COMP_WORDS[at]}} ;;\n            --) return ;;\n            \
         *) [[ -n $flag || ${{COMP_WORDS[at]}} == -* ]] || return; flag= ;;\n        esac\n    done\n    \
         case $flag in\n        '') [[ $word == -* ]] && words='{}' ;;\n",
        names(&mut help.flags.iter(), " ")
    );
    for Flag { name, words, .. } in help.flags.iter().filter(|flag| !flag.words.is_empty()) {
        let _ = writeln!(text, "        {name}) words='{words}' ;;");
    }
    text + "    esac\n    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n}\ncomplete -o default -F _agentkit_jail agentkit-jail\n"
}

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
            (_, "") => " -r".to_owned(),
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
