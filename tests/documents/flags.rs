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
        let flags: Vec<_> = text.lines().filter(is_flag).map(Flag::read).collect();
        assert!(
            flags.len() > 20 && before.len() + flags.len() + behind.len() == text.lines().count(),
            "{text}"
        );
        Ok(Help { before: before.join("\n"), flags, behind: behind.join("\n") })
    }
}

impl Flag {
    fn read(line: &str) -> Self {
        let (left, help) = line.split_at(32.min(line.len()));
        let (name, value) = left.trim().split_once(' ').unwrap_or((left.trim(), ""));
        Flag { name: name.to_owned(), value: value.to_owned(), help: help.trim().to_owned() }
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
    let mut page = ".TH AGENTKIT\\-JAIL 1\n.SH NAME\nagentkit\\-jail \\- run one command in a jail\n.SH DESCRIPTION\n.nf\n".to_owned();
    let _ = writeln!(page, "{}\n.fi\n.SH OPTIONS", roff(&help.before));
    for Flag { name, value, help } in &help.flags {
        let _ = writeln!(page, ".TP\n.BI {} \" {}\"\n{}", roff(name), roff(value), roff(help));
    }
    let _ = writeln!(page, ".SH EXIT STATUS AND SIGNALS\n{}", roff(help.behind.trim()));
    page
}

fn bash(help: &Help) -> String {
    let names: Vec<_> = help.flags.iter().map(|flag| flag.name.as_str()).collect();
    format!(
        "_agentkit_jail() {{\n    local flags='{}'\n    case ${{COMP_WORDS[COMP_CWORD]}} in\n        -*) mapfile -t COMPREPLY < \
         <(compgen -W \"$flags\" -- \"${{COMP_WORDS[COMP_CWORD]}}\") ;;\n    esac\n}}\ncomplete -o default -F _agentkit_jail agentkit-jail\n",
        names.join(" ")
    )
}

fn zsh(help: &Help) -> String {
    let mut text = "#compdef agentkit-jail\n_arguments -S \\\n".to_owned();
    for Flag { name, value, help } in &help.flags {
        let help = help.replace('\'', "'\\''").replace('[', "\\[").replace(']', "\\]").replace(':', "\\:");
        let value = match value.as_str() {
            "" => String::new(),
            value if value.starts_with("PATH") || value.starts_with("DIR") => {
                format!(":{}:_files", value.replace(':', "\\:"))
            }
            value => format!(":{}:", value.replace(':', "\\:")),
        };
        let equals = if value.is_empty() { "" } else { "=" };
        let _ = writeln!(text, "    '*{name}{equals}[{help}]{value}' \\");
    }
    text + "    '*:: :_normal'\n"
}

fn fish(help: &Help) -> String {
    let mut text = String::new();
    for Flag { name, value, help } in &help.flags {
        let takes = if value.is_empty() { "" } else { " -r" };
        let help = help.replace('\\', "\\\\").replace('\'', "\\'");
        let _ = writeln!(
            text,
            "complete -c agentkit-jail -l {}{takes} -d '{help}'",
            name.trim_start_matches("--")
        );
    }
    text
}
