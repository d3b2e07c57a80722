//! Where in the arguments of a call something is.

use crate::clip::excerpt;

/// Where a value stands: a list that lives on the stack of the walk.
pub(crate) enum Path<'a> {
    Root,
    Member(&'a Path<'a>, &'a str),
    Item(&'a Path<'a>, usize),
}

impl Path<'_> {
    fn write(&self, out: &mut String) {
        match self {
            Path::Root => {}
            Path::Member(parent, name) => {
                parent.write(out);
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(&excerpt(name, 60));
            }
            Path::Item(parent, index) => {
                parent.write(out);
                out.push_str(&format!("[{index}]"));
            }
        }
    }

    /// In back quotes, with room for nothing at the root.
    pub(crate) fn quoted(&self) -> String {
        let mut path = String::new();
        self.write(&mut path);
        format!("`{path}`")
    }

    /// ` in `inner``, or nothing at the root.
    pub(crate) fn inside(&self) -> String {
        match self {
            Path::Root => String::new(),
            _ => format!(" in {}", self.quoted()),
        }
    }
}
