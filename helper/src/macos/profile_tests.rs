//! The text is read back by a small reader of the language: what it allows is what the policy says.

use super::*;
use proptest::prelude::*;

/// One form of the language.
#[derive(Debug, PartialEq)]
enum Form {
    Word(String),
    Text(String),
    Pattern(String),
    List(Vec<Form>),
}

/// Reads all forms of a text without comments; panics where it is not well-formed.
fn read(text: &str) -> Vec<Form> {
    let mut characters = text.chars().peekable();
    let mut open: Vec<Vec<Form>> = vec![Vec::new()];
    while let Some(character) = characters.next() {
        let form = match character {
            ' ' | '\n' => continue,
            '(' => {
                open.push(Vec::new());
                continue;
            }
            ')' => Form::List(open.pop().unwrap()),
            '"' => {
                let mut text = String::new();
                loop {
                    match characters.next().unwrap() {
                        '"' => break Form::Text(text),
                        '\\' => text.push(characters.next().unwrap()),
                        other => text.push(other),
                    }
                }
            }
            '#' => {
                assert_eq!(characters.next(), Some('"'));
                Form::Pattern(characters.by_ref().take_while(|&c| c != '"').collect())
            }
            first => {
                let mut word = first.to_string();
                while let Some(next) = characters.next_if(|c| !"() \n\"".contains(*c)) {
                    word.push(next);
                }
                Form::Word(word)
            }
        };
        open.last_mut().expect("a list that was never opened is closed").push(form);
    }
    assert_eq!(open.len(), 1, "a list is left open");
    open.pop().unwrap()
}

impl Form {
    fn list(&self) -> &[Form] {
        let Form::List(list) = self else { panic!("no list: {self:?}") };
        list
    }

    fn is(&self, word: &str) -> bool {
        matches!(self, Form::Word(own) if own == word)
    }

    fn text(&self) -> &str {
        let Form::Text(text) = self else { panic!("no string: {self:?}") };
        text
    }

    /// Whether a filter matches `path`; only those about paths can.
    fn matches(&self, path: &str) -> bool {
        let [Form::Word(kind), arguments @ ..] = self.list() else { panic!("no filter: {self:?}") };
        match kind.as_str() {
            "literal" => arguments[0].text() == path,
            "subpath" => Path::new(path).starts_with(arguments[0].text()),
            "require-all" => arguments.iter().all(|filter| filter.matches(path)),
            "require-not" => !arguments[0].matches(path),
            "regex" => {
                let Form::Pattern(pattern) = &arguments[0] else { panic!("no pattern") };
                pattern_matches(pattern, path)
            }
            _ => false,
        }
    }
}

/// Whether a POSIX extended expression, as far as those here go, is found in `path`.
fn pattern_matches(pattern: &str, path: &str) -> bool {
    (0..=path.len()).any(|start| goes_on(pattern, &path[start..], &mut |_| true))
}

/// Whether `text` begins with the pattern and `then` holds for a rest.
fn goes_on(pattern: &str, text: &str, then: &mut dyn FnMut(&str) -> bool) -> bool {
    let Some(first) = pattern.chars().next() else { return then(text) };
    let length = match first {
        '[' => pattern.find(']').unwrap() + 1,
        '(' => end_of_group(pattern),
        _ => 1,
    };
    let (atom, rest) = pattern.split_at(length);
    let once = |text: &str, then: &mut dyn FnMut(&str) -> bool| match first {
        '(' => branches(&atom[1..length - 1]).into_iter().any(|branch| goes_on(branch, text, then)),
        '$' => text.is_empty() && then(text),
        _ => {
            let Some(next) = text.chars().next() else { return false };
            let fits = match first {
                '[' => atom[1..length - 1].contains(next),
                '.' => true,
                _ => first == next,
            };
            fits && then(&text[next.len_utf8()..])
        }
    };
    match rest.chars().next() {
        Some('?') => {
            goes_on(&rest[1..], text, then) || once(text, &mut |left| goes_on(&rest[1..], left, then))
        }
        Some('*') => goes_on(&rest[1..], text, then) || once(text, &mut |left| goes_on(pattern, left, then)),
        _ => once(text, &mut |left| goes_on(rest, left, then)),
    }
}

fn end_of_group(pattern: &str) -> usize {
    let mut depth = 0;
    let closes = |character| {
        depth += i32::from(character == '(') - i32::from(character == ')');
        depth == 0
    };
    pattern.find(closes).unwrap() + 1
}

/// At the bars that are in no group.
fn branches(pattern: &str) -> Vec<&str> {
    let mut depth = 0;
    let splits = |character| {
        depth += i32::from(character == '(') - i32::from(character == ')');
        depth == 0 && character == '|'
    };
    pattern.split(splits).collect()
}

#[test]
fn the_readers_patterns_are_patterns() {
    let found = |pattern, text| pattern_matches(pattern, text);
    assert!(found("/[aA]$", "/x/A") && !found("/[aA]$", "/x/Ab") && !found("/[aA]$", "/xA"));
    assert!(
        found("/g/(m|w)/(.*/)?(c|h)(/|$)", "/g/m/a/b/c/d") && found("/g/(m|w)/(.*/)?(c|h)(/|$)", "/g/w/h")
    );
    assert!(!found("/g/(m|w)/(.*/)?(c|h)(/|$)", "/g/m/ac") && !found("/g/(m|w)/(.*/)?(c|h)(/|$)", "/g/x/c"));
}

/// Whether the rules let `operation` happen to `path`.
fn allows(text: &str, operation: &str, path: &str) -> bool {
    read(text).iter().any(|rule| {
        let rule = rule.list();
        let named = rule.iter().any(|part| part.is(operation));
        let mut filters = rule.iter().filter(|part| matches!(part, Form::List(_)));
        rule[0].is("allow") && named && filters.any(|filter| filter.matches(path))
    })
}

fn grants<'a>(all: impl IntoIterator<Item = (&'a str, Access)>) -> BTreeMap<PathBuf, Grant> {
    all.into_iter().map(|(path, access)| (path.into(), Grant { access, is_directory: true })).collect()
}

fn text_of(grants: &BTreeMap<PathBuf, Grant>, protects_git: bool) -> String {
    profile(grants, &BTreeSet::new(), protects_git).text().unwrap()
}

fn profile<'a>(
    grants: &'a BTreeMap<PathBuf, Grant>,
    spellings: &'a BTreeSet<PathBuf>,
    protects_git: bool,
) -> Profile<'a> {
    let private = Path::new("/private/var/folders/x/T/jail");
    Profile { grants, spellings, private, protects_git, shares_network: false, mark: "agentkit.jail.00" }
}

#[test]
fn what_a_policy_adds_to_the_common_part() {
    let granted = grants([
        ("/System", Access::Readable),
        ("/System/Volumes", Access::Hidden),
        ("/Users/me/work", Access::Writable),
        ("/Users/me/work/a/b", Access::Readable),
        ("/private/var/folders/x/T/jail/tmp", Access::Writable),
    ]);
    let text = text_of(&granted, false);
    let own = text.strip_prefix(COMMON).unwrap();
    let expected = [
        r#"(allow file-read-metadata file-test-existence (literal "/") (literal "/System") (literal "/Users") (literal "/Users/me") (literal "/Users/me/work") (literal "/Users/me/work/a") (literal "/Users/me/work/a/b") (literal "/private") (literal "/private/var") (literal "/private/var/folders") (literal "/private/var/folders/x") (literal "/private/var/folders/x/T") (literal "/private/var/folders/x/T/jail") (literal "/private/var/folders/x/T/jail/tmp"))"#,
        r#"(allow file-read* file-test-existence file-map-executable process-exec (require-all (subpath "/System") (require-not (subpath "/System/Volumes"))))"#,
        r#"(allow file-read* file-test-existence file-map-executable process-exec (subpath "/Users/me/work"))"#,
        r#"(allow file-read* file-test-existence file-map-executable process-exec (subpath "/private/var/folders/x/T/jail/tmp"))"#,
        r#"(allow file-write-create file-write-data file-write-flags file-write-mode file-write-times file-write-unlink file-write-xattr (require-all (require-all (subpath "/Users/me/work") (require-not (subpath "/Users/me/work/a/b"))) (require-not (literal "/Users/me/work")) (require-not (literal "/Users/me/work/a"))))"#,
        r#"(allow file-write-create file-write-data file-write-flags file-write-mode file-write-times file-write-unlink file-write-xattr (require-all (subpath "/private/var/folders/x/T/jail/tmp") (require-not (literal "/private/var/folders/x/T/jail/tmp"))))"#,
        r#"(allow mach-lookup (global-name "agentkit.jail.00"))"#,
        r#"(allow system-socket (socket-domain AF_UNIX))"#,
        r#"(allow network-bind network-inbound (local unix-socket (subpath "/private/var/folders/x/T/jail")))"#,
        r#"(allow network-outbound (remote unix-socket (subpath "/private/var/folders/x/T/jail")))"#,
    ];
    assert_eq!(own.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn the_common_part_grants_nothing_of_a_users() {
    let text = text_of(&BTreeMap::new(), false);
    for path in
        ["/Users/me/.ssh/id_rsa", "/private/etc/hosts", "/tmp/x", "/private/tmp", "/dev/disk0", "/dev/tty"]
    {
        for operation in ["file-read*", "file-write-create", "file-write-data", "process-exec"] {
            assert!(!allows(&text, operation, path), "{operation} {path}");
        }
    }
    assert!(allows(&text, "file-read-metadata", "/tmp") && !allows(&text, "file-read*", "/tmp"));
    assert!(allows(&text, "file-read*", "/dev/urandom") && !allows(&text, "file-write-data", "/dev/urandom"));
    assert!(!text.contains("(allow network*)") && !text.contains("(allow default)") && !text.contains(';'));
    assert_eq!(read(&text)[..2], read("(version 1)(deny default)"));
}

#[test]
fn a_network_is_there_if_it_is_asked_for() {
    let nothing = BTreeMap::new();
    let spellings = BTreeSet::new();
    let shared = Profile { shares_network: true, ..profile(&nothing, &spellings, false) };
    assert!(shared.text().unwrap().contains("\n(allow network*)\n"));
}

#[test]
fn no_directory_can_be_moved_to_where_another_rule_decides() {
    let granted = grants([
        ("/w", Access::Writable),
        ("/w/a/b/secret", Access::Hidden),
        ("/w/a/b/secret/shown", Access::Writable),
        ("/w/ro", Access::Readable),
    ]);
    let text = text_of(&granted, false);
    let can = |operation, path| allows(&text, operation, path);
    for held in ["/w", "/w/a", "/w/a/b", "/w/a/b/secret", "/w/ro", "/w/ro/x", "/w/a/b/secret/shown"] {
        assert!(!can("file-write-unlink", held) && !can("file-write-create", held), "{held}");
    }
    for free in ["/w/x", "/w/a/x", "/w/a/b/x", "/w/a/b/secret/shown/x"] {
        assert!(can("file-write-unlink", free) && can("file-write-create", free), "{free}");
    }
    assert!(!can("file-read*", "/w/a/b/secret/x") && can("file-read*", "/w/a/b/secret/shown/x"));
    assert!(can("file-read-metadata", "/w/a/b/secret") && !can("file-read*", "/w/a/b/secret"));
}

#[test]
fn a_file_that_is_granted_is_not_replaced() {
    let grant = Grant { access: Access::Writable, is_directory: false };
    let text = text_of(&[("/f".into(), grant)].into(), false);
    assert!(allows(&text, "file-write-data", "/f") && !allows(&text, "file-write-unlink", "/f"));
    assert!(!allows(&text, "file-read*", "/f/x"));
}

#[test]
fn names_that_git_acts_on_stay_as_they_are() {
    let granted = grants([("/w", Access::Writable), ("/private/var/folders/x/T/jail/tmp", Access::Writable)]);
    let (on, off) = (text_of(&granted, true), text_of(&granted, false));
    let held = [
        "/w/.git",
        "/w/deep/.GIT",
        "/w/.git/hooks",
        "/w/.git/hooks/pre-commit",
        "/w/.git/Config",
        "/w/.git/config.worktree",
        "/w/.git/modules/a/b/config",
        "/w/.git/worktrees/x/gitdir",
        "/w/.git/rebase-merge/git-rebase-todo",
        "/w/bare.git/HEAD",
    ];
    for path in held {
        assert!(!allows(&on, "file-write-create", path), "{path}");
        assert!(allows(&off, "file-write-create", path), "{path}");
        assert!(allows(&on, "file-read*", path), "{path}");
    }
    let free = [
        "/w/config",
        "/w/.gitignore",
        "/w/.git/HEAD",
        "/w/.git/config.lock",
        "/w/.git/objects/ab/cd",
        "/w/.git/refs/heads/hooks",
        "/w/hooks/x",
        "/private/var/folders/x/T/jail/tmp/r/.git/hooks",
    ];
    for path in free {
        assert!(allows(&on, "file-write-create", path), "{path}");
    }
}

#[test]
fn what_cannot_be_said_is_refused() {
    for (path, why) in [
        ("/a\nb", "control"),
        ("/a\u{7f}", "control"),
        ("/${HOME}", "variable"),
        ("relative", "absolute"),
        ("", "absolute"),
    ] {
        assert!(quoted(Path::new(path)).unwrap_err().to_string().contains(why), "{path:?}");
    }
    use std::os::unix::ffi::OsStrExt;
    let bytes = Path::new(std::ffi::OsStr::from_bytes(b"/\xff"));
    assert!(quoted(bytes).unwrap_err().to_string().contains("UTF-8"));
}

fn any_access() -> impl Strategy<Value = Access> {
    prop_oneof![Just(Access::Hidden), Just(Access::Readable), Just(Access::Writable)]
}

/// Short names, so that paths lie in each other.
fn any_path() -> impl Strategy<Value = String> {
    prop::collection::vec("[abc]", 1..5).prop_map(|names| format!("/{}", names.join("/")))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_path_breaks_out_of_its_quotes(name in "[ -~\u{e9}\u{4e16}]{0,24}", hidden in "[\"\\\\()#; a]{1,12}") {
        let (path, hole) = (format!("/w/{name}"), format!("/w/{name}/{hidden}"));
        let plain = grants([("/w/x", Access::Writable), ("/w/x/y", Access::Hidden)]);
        let odd = grants([(path.as_str(), Access::Writable), (hole.as_str(), Access::Hidden)]);
        let spellings = BTreeSet::from([PathBuf::from(&path)]);
        let Ok(text) = profile(&odd, &spellings, true).text() else {
            let variable = path.contains("${") || hole.contains("${");
            prop_assert!(variable);
            return Ok(());
        };
        // Each string is one string again, and all around it is as for a path without anything special.
        fn shape(forms: &[Form]) -> Vec<Form> {
            forms.iter().map(|form| match form {
                Form::Text(_) => Form::Text(String::new()),
                Form::Word(word) => Form::Word(word.clone()),
                Form::Pattern(pattern) => Form::Pattern(pattern.clone()),
                Form::List(list) => Form::List(shape(list)),
            }).collect()
        }
        let rules = |text: &str| {
            let rules = read(text);
            // The number of parents may differ.
            shape(&rules).into_iter().filter(|rule| !rule.list().iter().any(|part| part.is("file-read-metadata"))).collect::<Vec<_>>()
        };
        prop_assert_eq!(rules(&text), rules(&text_of(&plain, true)));
        let quoted_text = quoted(Path::new(&path)).unwrap();
        prop_assert_eq!(read(&quoted_text), vec![Form::Text(path)]);
    }

    #[test]
    fn the_longest_path_decides(
        all in prop::collection::btree_map(any_path(), any_access(), 0..8),
        asked in any_path(),
    ) {
        let granted = grants(all.iter().map(|(path, access)| (path.as_str(), *access)));
        let decides = Path::new(&asked).ancestors().find_map(|path| granted.get(path)).map(|grant| grant.access);
        let text = text_of(&granted, false);
        prop_assert_eq!(
            allows(&text, "process-exec", &asked),
            matches!(decides, Some(Access::Readable | Access::Writable)),
        );
        // To replace it would be to replace what another rule is about.
        let leads_on = granted.keys().any(|path| {
            let other = granted[path].access != Access::Writable || path.as_path() == Path::new(&asked);
            path.starts_with(&asked) && other
        });
        let written = allows(&text, "file-write-unlink", &asked);
        prop_assert!(!written || decides == Some(Access::Writable));
        prop_assert!(written || decides != Some(Access::Writable) || leads_on);
    }
}
