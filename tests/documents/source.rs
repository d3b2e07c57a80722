//! Reads the types of the protocol from their source, as far as that is written the way it is.

/// In place of the type of a variant with fields of its own.
const FIELDS_FOLLOW: &str = "{";

/// A struct or an enum.
pub(crate) struct Type {
    name: String,
    says: String,
    parts: Vec<Part>,
    is_enum: bool,
}

/// A field or a variant.
struct Part {
    /// As in JSON.
    name: String,
    /// Its type in Rust; empty for a variant that holds nothing.
    holds: String,
    says: String,
}

/// The public types of a file.
pub(crate) fn types(source: &str) -> Vec<Type> {
    let source = source.split("#[cfg(test)]").next().unwrap_or_default();
    let mut types: Vec<Type> = Vec::new();
    let mut says = Vec::new();
    // The variant whose fields are being read, and whether a type is.
    let (mut variant, mut inside) = (None::<String>, false);
    for line in source.lines() {
        let words = line.trim();
        if let Some(comment) = words.strip_prefix("///") {
            says.push(comment.trim());
            continue;
        }
        let head = ["pub struct ", "pub enum "].iter().find_map(|it| Some((*it, words.strip_prefix(it)?)));
        match (head, inside) {
            (Some((kind, rest)), _) => {
                let name = rest.trim_end_matches(['{', ' ']).to_owned();
                let is_enum = kind.contains("enum");
                types.push(Type { name, says: text(&says), parts: Vec::new(), is_enum });
                inside = true;
            }
            (None, true) if line == "}" => inside = false,
            (None, true) if words == "}," => variant = None,
            (None, true) if !words.starts_with('#') && !words.is_empty() => {
                let mut part = part(words, variant.as_deref(), &says);
                if words.ends_with('{') {
                    variant = Some(part.name.clone());
                    part.holds = FIELDS_FOLLOW.to_owned();
                }
                if let Some(last) = types.last_mut() {
                    last.parts.push(part);
                }
            }
            // Attributes stand between a comment and what it is about.
            _ if words.starts_with('#') => continue,
            _ => {}
        }
        says.clear();
    }
    types
}

fn part(words: &str, variant: Option<&str>, says: &[&str]) -> Part {
    let words = words.trim_start_matches("pub ").trim_end_matches([',', '{', ' ']);
    let (name, holds) = match words.split_once(": ") {
        Some((name, holds)) => (name, holds),
        None => words.trim_end_matches(')').split_once('(').unwrap_or((words, "")),
    };
    let name = variant.map_or_else(|| snake(name), |variant| format!("{variant}.{name}"));
    Part { name, holds: holds.to_owned(), says: text(says) }
}

/// A comment as one line, without Rust's notation for links and the example at its end.
fn text(says: &[&str]) -> String {
    let joined: Vec<_> = says
        .iter()
        .copied()
        .take_while(|line| !line.starts_with("```"))
        .filter(|line| !line.is_empty())
        .collect();
    let joined = without_targets(&joined.join(" "));
    let mut out = String::new();
    for (number, piece) in joined.split("[`").enumerate() {
        match piece.split_once("`]").filter(|_| number > 0) {
            Some((link, rest)) => {
                let (_, last) = link.rsplit_once("::").unwrap_or(("", link));
                let shown = if link.contains("::") { snake(last) } else { last.to_owned() };
                out.push_str(&format!("`{shown}`{rest}"));
            }
            None => out.push_str(piece),
        }
    }
    out.replace('|', "\\|")
}

/// `[words](crate::Type)` as its words: the target means something to rustdoc alone.
fn without_targets(text: &str) -> String {
    let mut out = String::new();
    let mut pieces = text.split("](crate::");
    let mut before = pieces.next().unwrap_or_default();
    for piece in pieces {
        let (above, words) = before.rsplit_once('[').unwrap_or((before, ""));
        out.push_str(above);
        // Code in it is marked as code without the brackets too.
        out.push_str(words);
        before = piece.split_once(')').map_or(piece, |(_, rest)| rest);
    }
    out + before
}

/// `WallClock` to `wall_clock`, as serde does.
fn snake(name: &str) -> String {
    let mut out = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.extend(letter.to_lowercase());
    }
    out
}

impl Type {
    /// A heading and a table.
    pub(crate) fn markdown(&self) -> String {
        let Type { name, says, parts, is_enum } = self;
        let rows: String = parts
            .iter()
            .map(|part| {
                format!("| {} | {} |\n", if *is_enum { part.value() } else { part.field() }, part.says)
            })
            .collect();
        let head = if *is_enum { "one of" } else { "field" };
        format!("### {name}\n\n{says}\n\n| {head} | |\n|---|---|\n{rows}")
    }
}

impl Part {
    fn field(&self) -> String {
        format!("`{}`: {}", self.name, json(&self.holds))
    }

    fn value(&self) -> String {
        match (&self.holds[..], self.name.contains('.')) {
            (holds, true) => format!("`{}`: {}", self.name, json(holds)),
            ("", false) => format!("`\"{}\"`", self.name),
            (FIELDS_FOLLOW, false) => format!("`{{\"{}\": {{…}}}}`", self.name),
            (holds, false) => format!("`{{\"{}\": …}}`: {}", self.name, json(holds)),
        }
    }
}

/// What a Rust type is in JSON.
fn json(holds: &str) -> String {
    let inner = |start: &str| holds.strip_prefix(start).and_then(|rest| rest.strip_suffix('>'));
    if let Some(inner) = inner("Option<") {
        return format!("{} or null", json(inner));
    }
    if let Some(inner) = inner("Vec<").or_else(|| inner("BTreeSet<")) {
        return format!("array of {}", json(inner));
    }
    if let Some((key, value)) = inner("BTreeMap<").and_then(|inner| inner.split_once(", ")) {
        return format!("object from {} to {}", json(key), json(value));
    }
    match holds {
        "bool" => "true or false".to_owned(),
        "u8" | "u16" | "u32" | "u64" | "i32" | "i64" => "number".to_owned(),
        "String" | "Bytes" => "string".to_owned(),
        other => format!("[{other}](#{})", other.to_lowercase()),
    }
}
